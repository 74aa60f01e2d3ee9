"""Degenerate cohorts through every kind of privacy: the right answer, and nothing said of anybody.

A warning of numpy is an error here, in this process and in the worker's. Everything that is sent
to the cluster is looked at.
"""

from __future__ import annotations

import itertools
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import zarr
from acceptance_inputs import Published
from edge_answers import exact_statistics, moment_sums, noise_scales, right_answer, stored
from edge_cohorts import COHORTS, EdgeCohort, write_cohort
from edge_releases import (
    Recorder,
    Released,
    assert_same_but_for_noise,
    texts,
    travelled,
    weights_in,
)
from tiers import thinned

from primo_scale.cluster import connect
from primo_scale.cluster.profile import LocalProfile

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

EPSILON, DELTA = 2, 1e-6
BUDGET = ("--epsilon", EPSILON, "--delta", DELTA, "--accept-noise")
FULL_ADD = ("--adjacency", "add-remove", "--nominal-n", 20)
KINDS = {
    "full": (),
    "full-add": FULL_ADD,
    "label": ("--privacy", "label"),
    "label-add": ("--privacy", "label", "--adjacency", "add-remove"),
    "feature": ("--privacy", "feature"),
    "feature-add": ("--privacy", "feature", "--adjacency", "add-remove"),
}
METHODS = {
    "full": [
        ("reuse-cov-gauss", "sure"), ("reuse-cov-gauss", "james-stein"),
        ("reuse-cov-gauss", "ridge-at-noise-norm"), ("reuse-cov-proj", None), ("ssp", None),
        ("ada-ssp", None), ("ada-ssp-budget", None), ("const-ssp-full", None), ("naive", None),
    ],
    "label": [
        ("reuse-cov-proj-x", None), ("reuse-cov-gauss", "sure"), ("reuse-cov-gauss", "james-stein"),
    ],
    "feature": [
        ("reuse-cov-gauss", None), ("reuse-cov-proj-y", "sure"),
        ("reuse-cov-proj-y", "james-stein"), ("reuse-cov-proj-y", "ridge-at-noise-norm"),
        ("ada-ssp", None), ("naive", None),
    ],
}  # fmt: skip
# Degenerate columns are released in LD blocks of two, with bounds of their own where that helps.
BLOCKS = {"degenerate": ("--ld-blocks", "window:2")}
DEGENERATE, ORDINARY = "degenerate", "ordinary"

# A normal number is never so far from 0: false alarms below 1e-15 in all of these tests.
FARTHEST_DRAW = 9
# Nine digits are printed; solving costs a few more.
RELATIVE_TOLERANCE = 1e-6


Release = Callable[..., Released]


@pytest.fixture(scope="module", autouse=True)
def recorder(tmp_path_factory) -> Iterator[Recorder]:
    """One cluster of the product's own for all runs, which starting one each would take minutes."""
    scratch = tmp_path_factory.mktemp("scratch")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONWARNINGS", "error::RuntimeWarning")  # in the worker, started here
        with connect.dask_client(LocalProfile(1), scratch) as client:
            seen = Recorder(client)
            send = client.map

            def recorded(call, tasks, *, key, retries):
                for name, task in zip(key, tasks, strict=True):
                    seen.sent.append((call.func.__name__, name, *call.args, task))
                return send(call, tasks, key=key, retries=retries)

            patch.setattr(client, "map", recorded)
            patch.setattr(connect, "dask_client", lambda *_, **__: nullcontext(client))
            yield seen


@pytest.fixture(scope="module")
def release(run, recorder, tmp_path_factory) -> Release:
    """Release a cohort, private or not, in a directory of its own."""

    def released(cohort: EdgeCohort, *options: object) -> Released:
        directory = tmp_path_factory.mktemp("edge")
        out, ledger = directory / "release", directory / "ledger.sqlite"
        asked = [*write_cohort(cohort, directory / "in"), *options, "--out", out, "--workers", 1,
                 "--work-dir", directory / "work", "--ledger", ledger,
                 "--cohort", "edge"]  # fmt: skip
        recorder.take()
        done = run("gwas_release", *asked)
        if "--non-private" not in options:
            assert "verified:" in run("verify", out, "--ledger", ledger).stdout
        return Released(
            cohort, Published(out), directory / "work", done.stdout, done.stderr, recorder.take()
        )

    return released


@pytest.fixture(scope="module")
def private(release: Release) -> Callable[[str, str], Released]:
    """The private release of a cohort, made when first asked for."""
    made: dict[tuple[str, str], Released] = {}

    def get(name: str, kind: str) -> Released:
        if (name, kind) not in made:
            cohort = COHORTS[DEGENERATE].ordinary() if name == ORDINARY else COHORTS[name]
            blocks = BLOCKS.get(DEGENERATE if name == ORDINARY else name, ())
            made[name, kind] = release(cohort, *BUDGET, *KINDS[kind], *blocks)
        return made[name, kind]

    return get


@pytest.fixture(scope="module")
def unprotected(release: Release) -> Callable[[str], Released]:
    """The release of a cohort without noise or penalty, made when first asked for."""
    made: dict[str, Released] = {}

    def get(name: str) -> Released:
        if name not in made:
            made[name] = release(COHORTS[name], "--non-private", "--ridge", 0)
        return made[name]

    return get


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((DEGENERATE, kind) for kind in KINDS),
        # 30 pairs, 6 in the quick tier: each of the other cohorts, and each kind.
        *thinned(itertools.product(list(COHORTS)[1:], KINDS), every=5),
    ],
)
def test_a_private_release_is_of_the_right_sums_and_says_finite_numbers(
    name: str, kind: str, private
) -> None:
    assert_right_sums(private(name, kind))


def assert_right_sums(released: Released) -> None:
    """Exact statistics are those of the cells, noisy ones near them, and no weight is missing."""
    design, statement = released.stored("design.json"), released.published.statement
    expected = exact_statistics(released.cohort, design)
    exact = zarr.open_group(released.work / "statistics.zarr", mode="r")
    charge = statement["ledger"]["charges"][-1]["id"]
    drawn = zarr.open_group(released.work / "private_statistics" / f"{charge}.zarr", mode="r")
    noisy = stored(drawn, list(expected))
    scales = noise_scales(statement, design["boundaries"], 1 + len(released.cohort.covariates))
    for part, values in stored(exact, list(expected)).items():
        np.testing.assert_array_equal(values, expected[part], err_msg=part)
        error = np.abs(noisy[part] - values)
        assert np.all(error <= FARTHEST_DRAW * scales[part]), part
    weights = weights_in(released.published.path)
    assert np.isfinite(weights).all()
    d, l = released.cohort.dosages.shape[1], len(released.cohort.phenotypes)  # noqa: E741
    assert weights.shape == (d + 1 + len(released.cohort.covariates), l)


@pytest.mark.parametrize("name", COHORTS)
def test_without_noise_the_answer_is_that_of_numpy_and_scikit_learn(
    name: str, unprotected, run, tmp_path: Path
) -> None:
    """To the printed digits, and what truncating phenotypes to lattice steps may do at most."""
    released = unprotected(name)
    assert_right_answer(released.cohort, released.published, ridge=0)
    run("finalize", "--work-dir", released.work, "--non-private", "--ridge", 3,
        "--out", tmp_path / "penalised")  # fmt: skip
    assert_right_answer(released.cohort, Published(tmp_path / "penalised"), ridge=3)


def assert_right_answer(cohort: EdgeCohort, published: Published, *, ridge: float) -> None:
    unit = published.statement["public_inputs"]["phenotype_unit"]
    answer = right_answer(cohort, ridge=ridge, unit=unit)
    assert np.all(answer.fit_error < 0.02)  # else agreement would say little
    found = published.variant_weights.to_numpy(np.float64)
    assert_close(found, answer.per_allele, answer.weight_error)
    covariates = [column.values() for column in cohort.covariates.values()]
    dosages = np.where(np.isnan(cohort.dosages), published.centre, cohort.dosages)
    fitted = published.intercept + dosages @ found
    if covariates:
        fitted = fitted + np.stack(covariates, axis=1) @ published.covariate_weights
    assert_close(fitted, answer.fitted, answer.fit_error)


def assert_close(found, expected, error) -> None:
    allowed = error + RELATIVE_TOLERANCE * (1 + np.abs(expected))
    assert np.all(np.abs(found - expected) <= allowed)


def test_a_column_without_information_gets_the_answer_it_has(unprotected) -> None:
    released = unprotected(DEGENERATE)
    cohort, published = released.cohort, released.published
    weights = published.variant_weights
    uncalled, centred = "rs4", "rs1"
    assert np.abs(weights.loc[[uncalled, centred]].to_numpy(np.float64)).max() < 1e-12
    # Of two equal variants each has half: that is the answer of least norm.
    np.testing.assert_allclose(weights.loc["rs0"], weights.loc["rs3"], rtol=1e-4, atol=1e-6)
    assert not weights["absent"].to_numpy(np.float64).any()
    at_mean = published.intercept[list(cohort.phenotypes).index("absent")]
    assert at_mean == cohort.phenotypes["absent"].mean


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "full"])
def test_without_noise_every_kind_gives_the_same_answer(
    kind: str, release: Release, unprotected
) -> None:
    asked = [word for word in KINDS[kind] if word not in FULL_ADD[2:]]  # n is not private now
    one = unprotected(DEGENERATE)
    other = release(one.cohort, "--non-private", "--ridge", 0, *asked)
    weights = [each.published.path / "weights.tsv.gz" for each in (one, other)]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    assert one.stdout.splitlines()[0] == other.stdout.splitlines()[0]  # the same exact integers


@pytest.mark.parametrize(
    ("name", "kind"),
    thinned(
        itertools.product(
            (DEGENERATE, "one of everything", "nothing"), ("full", "full-add", "label", "label-add")
        ),
        every=3,
    ),
)
def test_moments_of_odd_phenotypes_can_be_bought(name: str, kind: str, release: Release) -> None:
    released = release(COHORTS[name], *BUDGET, *KINDS[kind], "--pheno-moments")
    bought = released.stored("phenotype_moments.json")
    exact = moment_sums(released.cohort.phenotypes.values())
    error = np.abs(np.array(bought["sums"]) - exact)
    assert np.all(error <= FARTHEST_DRAW * bought["sigma"])
    assert_right_sums(released)


@pytest.mark.parametrize("kind", METHODS)
def test_every_method_gives_finite_weights_for_odd_statistics(
    kind: str, private, run, tmp_path: Path
) -> None:
    released = private(DEGENERATE, kind)
    unit = ("--privacy", kind)
    run("ledger", "set-budget", "--ledger", released.ledger, "--cohort", "edge",
        "--epsilon", 60, "--delta", DELTA, *unit)  # fmt: skip
    for method, shrinkage in METHODS[kind]:
        out = tmp_path / f"{method}-{shrinkage}"
        chosen = ("--shrinkage", shrinkage) if shrinkage else ()
        run("finalize", "--work-dir", released.work, *BUDGET, "--out", out, "--method", method,
            "--ledger", released.ledger, "--cohort", "edge", *chosen)  # fmt: skip
        assert "verified:" in run("verify", out).stdout
        assert np.isfinite(weights_in(out)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_bound_that_leaves_a_row_one_lattice_step(
    kind: str, release: Release, tmp_path: Path
) -> None:
    """All genotypes are clipped to nothing or one step, beside a panel of extreme frequencies."""
    cohort = COHORTS[DEGENERATE]
    panel = tmp_path / "panel.afreq"
    rows = [f"1\trs{j}\tG\tA\t{p}\t200" for j, p in enumerate(("0", "1", "0.5", "nan", "1e-9"))]
    header = "#CHROM\tID\tREF\tALT\tALT_FREQS\tOBS_CT"
    panel.write_text("\n".join([header, *rows]) + "\n")
    released = release(cohort, *BUDGET, *KINDS[kind], "--ref-freq", panel, "--row-norm", 0.07)
    assert released.stored("design.json")["row_norm"] == 1
    gram = zarr.open_group(released.work / "statistics.zarr", mode="r")["gram/0"][:]
    if not kind.startswith("label"):
        assert 0 <= np.trace(gram) <= cohort.n
    assert np.isfinite(weights_in(released.published.path)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_release_and_what_travels_do_not_tell_an_odd_cohort_from_an_ordinary_one(
    kind: str, private
) -> None:
    """Same public facts, everything private as different as can be: only noise may differ."""
    odd, ordinary = private(DEGENERATE, kind), private(ORDINARY, kind)
    assert_same_but_for_noise(odd, ordinary)
    assert travelled(odd) == travelled(ordinary)
    assert len(odd.sent) == 1 + 4  # one row task, four blocks


def test_where_n_is_private_a_person_fewer_changes_noise_alone(release: Release, private) -> None:
    everybody = private(DEGENERATE, "full-add")
    cohort = COHORTS[DEGENERATE].without_person(5)
    fewer = release(cohort, *BUDGET, *FULL_ADD, *BLOCKS[DEGENERATE])
    assert_same_but_for_noise(everybody, fewer)
    known = private(DEGENERATE, "full").published.statement["cohort"]
    assert known["n_samples"] == COHORTS[DEGENERATE].n  # where n is public it is stated


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_known_of_people_is_said_on_the_private_side_alone(
    kind: str, private, recorder
) -> None:
    released = private(DEGENERATE, kind)
    lines = released.stdout.splitlines()
    assert [line.split(": ")[0] for line in lines] == ["statistics sha256", "release"]
    # Whatever stands on the terminal is a line of the log, and stands in the private run.log too.
    log = (released.work / "run.log").read_text()
    assert [line for line in released.stderr.splitlines() if line not in log] == []
    notes = ("24 genotyped people matched", "no_codes: 3 values count as missing",
             "controls: 0 cases among", "samples without any call (kept): 1")  # fmt: skip
    assert [note for note in notes if note not in log] == []
    assert stat.S_IMODE((released.work / "run.log").stat().st_mode) == 0o600
    assert stat.S_IMODE(released.work.stat().st_mode) == 0o700
    public = "\n".join(texts(released.published.path).values())
    private_words = [*notes, lines[0].split(": ")[1], "zq", str(released.work.parent), "0 cases"]
    assert [word for word in private_words if word in public] == []
    assert not any("zq" in str(sent) for sent in released.sent)
    logs = [str(recorder.client.get_worker_logs()), str(recorder.client.get_scheduler_logs())]
    assert "Worker" in logs[0]  # there is something to look at
    names = [*released.cohort.phenotypes, *released.cohort.covariates]
    words = [*(f"{name!r}" for name in names), *notes]
    assert [word for word in words for log in logs if word in log] == []
    # Whole names: Dask draws the letters of its scratch directories, and "zq" may be among them.
    assert not any(re.search(r"person\d{4}zq", log) for log in logs)


# name: what is changed in the public inputs or options, the exit code, and what must be said.
Change = Callable[[Path], list[object]]


def bounds(row: str) -> Change:
    def change(directory: Path) -> list[object]:
        path = directory / "pheno.bounds.tsv"
        lines = path.read_text().splitlines()
        path.write_text("\n".join([lines[0], row, *lines[2:]]) + "\n")
        return []

    return change


def options(*words: object) -> Change:
    return lambda directory: list(words)


REFUSED = {
    "bounds of zero width": (bounds("plain\t1\t1\t1\t1"), 3, "not an increasing range"),
    "sd of zero": (bounds("plain\t-2\t2\t0\t0"), 3, "sd of plain is not positive"),
    "no upper bound": (bounds("plain\t-2\tNA\t0\t1"), 3, "upper of plain is not a finite number"),
    "endless bound": (bounds("plain\t-inf\t2\t0\t1"), 3, "Give both bounds"),
    "far bound": (bounds("plain\t-2\t99\t0\t1"), 3, "too far from its mean"),
    "mean out of bounds": (bounds("plain\t-2\t2\t3\t1"), 3, "outside its bounds"),
    "row norm of zero": (options("--row-norm", 0), 2, "--row-norm"),
    "epsilon of zero": (options("--epsilon", 0), 2, "epsilon"),
    "delta of one": (options("--delta", 1), 2, "delta"),
    "subsample of everybody": (options("--subsample", 24), 2, "smaller than the cohort"),
    "ld blocks of none": (options("--ld-blocks", "window:0"), 2, "--ld-blocks"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_is_refused_whatever_the_values_of_people(
    case: str, run, tmp_path: Path
) -> None:
    change, exit_code, said = REFUSED[case]
    cohort = COHORTS[DEGENERATE]
    errors = []
    for name, values in ((DEGENERATE, cohort), (ORDINARY, cohort.ordinary())):
        directory = tmp_path / name
        asked = write_cohort(values, directory)
        asked += [*BUDGET, *change(directory)]
        refused = run(
            "gwas_release", *asked, "--workers", 1, "--out", directory / "release",
            "--ledger", directory / "ledger.sqlite", exit_code=exit_code,
        )  # fmt: skip
        assert not (directory / "release").exists()
        assert not (directory / "ledger.sqlite").exists()  # nothing was paid
        errors.append(refused.stderr.splitlines()[-1].replace(str(directory), "IN"))
    assert said in errors[0]
    assert errors[0] == errors[1]
