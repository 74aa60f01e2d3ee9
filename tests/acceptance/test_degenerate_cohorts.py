"""Degenerate cohorts with every kind of privacy: correct results, and no private output.

Warnings of numpy are errors, in this process and in the worker. All tasks sent to the cluster are
examined.
"""

import functools
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import zarr
from acceptance_inputs import Published, texts
from edge_answers import exact_statistics, left_out, noise_scales, right_answer
from edge_cohorts import COHORTS, EdgeCohort, write_cohort
from edge_releases import Recorder, Released, assert_same_but_for_noise, sent_tasks, weights_in
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
# Queries that a release of each privacy unit answers with noise; the other statistics are public.
PROTECTED = {
    "full": {"gram", "phenotype_cross", "phenotype_gram", "observed", "adjustment"},
    "label": {"phenotype_cross", "phenotype_gram", "observed", "adjustment"},
    "feature": {"gram", "phenotype_cross", "phenotype_gram", "adjustment"},
}
DEGENERATE, ORDINARY = "degenerate", "ordinary"
# Degenerate columns, and those with the same public facts, are released in blocks of two variants.
BLOCKS = dict.fromkeys((DEGENERATE, ORDINARY), ("--ld-blocks", "window:2"))

# Largest normal number in units of its sd: false alarms below 1e-15 in all of these tests.
FARTHEST_DRAW = 9
# Weights are printed with nine digits, and solving loses a few more.
RELATIVE_TOLERANCE = 1e-6


Release = Callable[..., Released]


@pytest.fixture(scope="module", autouse=True)
def recorder(tmp_path_factory) -> Iterator[Recorder]:
    """Provide one local cluster for all runs, because starting one for each takes minutes."""
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
    """Provide a function that releases a cohort, private or not, in a new directory."""

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
    """Provide a function that returns the private release of a cohort, made at the first call."""
    cohorts = {**COHORTS, ORDINARY: COHORTS[DEGENERATE].ordinary()}

    @functools.cache
    def made(name: str, kind: str) -> Released:
        return release(cohorts[name], *BUDGET, *KINDS[kind], *BLOCKS.get(name, ()))

    return made


@pytest.fixture(scope="module")
def unprotected(release: Release) -> Callable[[str], Released]:
    """Provide a function that returns the release of a cohort without noise or penalty."""
    return functools.cache(lambda name: release(COHORTS[name], "--non-private", "--ridge", 0))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *thinned(((DEGENERATE, kind) for kind in KINDS), every=len(KINDS)),
        # Every other cohort once, each with another kind.
        *(
            pytest.param(name, kind, marks=pytest.mark.slow)
            for name, kind in zip(list(COHORTS)[1:], list(KINDS)[1:], strict=True)
        ),
    ],
)
def test_a_private_release_has_the_right_sums_and_finite_weights(
    name: str, kind: str, private
) -> None:
    released = private(name, kind)
    assert_right_sums(released)
    statement = released.published.statement
    queries = {query["name"] for query in statement["mechanism"]["queries"]}
    assert statement["guarantee"]["privacy"] == kind.split("-")[0]
    assert queries == PROTECTED[kind.split("-")[0]]


def assert_right_sums(released: Released) -> None:
    """Check that exact statistics match the cells, noisy ones are close, and weights are finite."""
    design, statement = released.stored("design.json"), released.published.statement
    expected = exact_statistics(released.cohort, design)
    exact = zarr.open_group(released.work / "statistics.zarr", mode="r")
    charge = statement["ledger"]["charges"][-1]["id"]
    noisy = zarr.open_group(released.work / "private_statistics" / f"{charge}.zarr", mode="r")
    n_fixed = 0 if left_out(design) else 1 + len(released.cohort.covariates)
    scales = noise_scales(statement, design["boundaries"], n_fixed)
    noised = 0
    for part, values in expected.items():
        np.testing.assert_array_equal(exact[part][:], values, err_msg=part)
        error, scale = np.abs(noisy[part][:] - values), np.broadcast_to(scales[part], values.shape)
        assert np.all(error <= FARTHEST_DRAW * scale), part
        # One draw in fifty of a scale of 20 lattice steps is zero, and less of larger ones.
        drawn = error[(scale > 20) & np.isfinite(scale)] > 0
        assert drawn.size < 8 or drawn.mean() > 0.5, part
        noised += drawn.sum()
    assert noised
    weights = weights_in(released.published.path)
    assert np.isfinite(weights).all()
    d, l = released.cohort.dosages.shape[1], len(released.cohort.phenotypes)  # noqa: E741
    assert weights.shape == (d + 1 + len(released.cohort.covariates), l)


@pytest.mark.parametrize("name", thinned(COHORTS, every=len(COHORTS)))
def test_without_noise_weights_equal_numpy_and_scikit_learn(
    name: str, unprotected, run, tmp_path: Path
) -> None:
    """Tolerances are the printed digits and the largest error from truncating phenotypes."""
    released = unprotected(name)
    assert_right_answer(released.cohort, released.published, ridge=0)
    run("finalize", "--work-dir", released.work, "--non-private", "--ridge", 3,
        "--out", tmp_path / "penalised")  # fmt: skip
    assert_right_answer(released.cohort, Published(tmp_path / "penalised"), ridge=3)


def assert_right_answer(cohort: EdgeCohort, published: Published, *, ridge: float) -> None:
    unit = published.statement["public_inputs"]["phenotype_unit"]
    answer = right_answer(cohort, ridge=ridge, unit=unit)
    assert np.all(answer.fit_error < 0.02)  # otherwise the comparison is weak
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


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["label-add", "full-add", "feature"])
def test_without_noise_every_kind_gives_the_same_weights(
    kind: str, release: Release, unprotected
) -> None:
    asked = [word for word in KINDS[kind] if word not in FULL_ADD[2:]]  # n is not private now
    one = unprotected(DEGENERATE)
    other = release(one.cohort, "--non-private", "--ridge", 0, *asked)
    weights = [each.published.path / "weights.tsv.gz" for each in (one, other)]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    assert one.stdout.splitlines()[0] == other.stdout.splitlines()[0]  # the same exact integers


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["full", "label-add", "feature"])
def test_a_row_norm_of_one_lattice_step(kind: str, release: Release, tmp_path: Path) -> None:
    """All genotypes are clipped to zero or one step; the panel has extreme frequencies."""
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


@pytest.mark.parametrize("kind", thinned(KINDS, every=len(KINDS)))
def test_releases_and_messages_do_not_reveal_an_odd_cohort(kind: str, private) -> None:
    """The cohorts share all public facts and no private ones, so that only noise may differ."""
    odd, ordinary = private(DEGENERATE, kind), private(ORDINARY, kind)
    assert_same_but_for_noise(odd, ordinary)
    assert sent_tasks(odd) == sent_tasks(ordinary)
    assert len(odd.sent) == 1 + 4  # one row task, four blocks


@pytest.mark.slow
def test_with_private_n_one_person_changes_only_noise(release: Release, private) -> None:
    everybody = private(DEGENERATE, "full-add")
    cohort = COHORTS[DEGENERATE].without_person(5)
    fewer = release(cohort, *BUDGET, *FULL_ADD, *BLOCKS[DEGENERATE])
    assert_same_but_for_noise(everybody, fewer)
    known = private(DEGENERATE, "full").published.statement["cohort"]
    assert known["n_samples"] == COHORTS[DEGENERATE].n  # where n is public it is stated


@pytest.mark.parametrize("kind", thinned(KINDS, every=len(KINDS)))
def test_private_counts_appear_only_in_private_files(kind: str, private, recorder) -> None:
    released = private(DEGENERATE, kind)
    lines = released.stdout.splitlines()
    assert [line.split(": ")[0] for line in lines] == ["statistics sha256", "release"]
    # All lines on the terminal are log lines, and also in the private run.log.
    log = (released.work / "run.log").read_text()
    assert [line for line in released.stderr.splitlines() if line not in log] == []
    notes = ("24 genotyped people matched", "no_codes: 3 values other than its codes",
             "controls: 0 cases among", "samples without any call (kept): 1")  # fmt: skip
    assert [note for note in notes if note not in log] == []
    assert stat.S_IMODE((released.work / "run.log").stat().st_mode) == 0o600
    assert stat.S_IMODE(released.work.stat().st_mode) == 0o700
    public = "\n".join(texts(released.published.path).values())
    private_words = [*notes, lines[0].split(": ")[1], "zq", str(released.work.parent), "0 cases"]
    assert [word for word in private_words if word in public] == []
    assert not any("zq" in str(sent) for sent in released.sent)
    logs = [str(recorder.client.get_worker_logs()), str(recorder.client.get_scheduler_logs())]
    assert "Worker" in logs[0]  # otherwise the checks below cannot fail
    names = [*released.cohort.phenotypes, *released.cohort.covariates]
    words = [*(f"{name!r}" for name in names), *notes]
    assert [word for word in words for log in logs if word in log] == []
    # Whole names are searched for, because Dask's random directory names may contain "zq".
    assert not any(re.search(r"person\d{4}zq", log) for log in logs)


# Change of the public inputs or options, exit code, and part of the error line, by name.
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
    "endless bound": (bounds("plain\t-inf\t2\t0\t1"), 3, "Give both bounds"),
    "far bound": (bounds("plain\t-2\t99\t0\t1"), 3, "too far from its mean"),
    "row norm of zero": (options("--row-norm", 0), 2, "--row-norm"),
    "subsample of everybody": (options("--subsample", 24), 2, "smaller than the cohort"),
    "ld blocks of none": (options("--ld-blocks", "window:0"), 2, "--ld-blocks"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_do_not_depend_on_private_values(case: str, run, tmp_path: Path) -> None:
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
