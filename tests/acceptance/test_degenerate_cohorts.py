"""Degenerate cohorts with every kind of privacy: correct results, and no private output."""

from __future__ import annotations

import functools
import json
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import bed_reader
import numpy as np
import pytest
from distributed import Client
from sklearn.linear_model import Ridge
from support.acceptance_inputs import Float64, Published, texts
from support.tiers import thinned

from primo_scale.cluster import workers
from primo_scale.cluster.job_queues import LocalProfile
from primo_scale.version import __version__

MISSING = {"NA", "nan", "-nan", "-9", "-9.0"}
BINARY = ({0.0, 1.0}, {1.0, 2.0})


@dataclass(frozen=True)
class Column:
    cells: Sequence[str]
    lower: float = -2.0
    upper: float = 2.0
    mean: float = 0.0
    sd: float = 1.0

    def observed(self):
        """Return a mask of people with a value, which is neither missing nor an unknown code."""
        codes = {self.lower, self.upper}
        return np.array(
            [
                cell not in MISSING and (codes not in BINARY or float(cell) in codes)
                for cell in self.cells
            ]
        )

    def values(self):
        present = self.observed()
        numbers = [float(cell) if there else self.mean
                   for cell, there in zip(self.cells, present, strict=True)]  # fmt: skip
        return np.clip(numbers, self.lower, self.upper)


@dataclass(frozen=True)
class EdgeCohort:
    dosages: Float64  # copies of A1, nan where missing, shape (n, d)
    phenotypes: Mapping[str, Column]  # by name
    covariates: Mapping[str, Column]

    @property
    def n(self):
        return len(self.dosages)

    def codes(self):
        return np.where(np.isnan(self.dosages), 0.0, self.dosages - 1)

    def ordinary(self):
        phenotypes, covariates = (
            {
                name: replace(column, cells=_within(column, self.n, seed))
                for seed, (name, column) in enumerate(columns.items(), start=first)
            }
            for columns, first in ((self.phenotypes, 100), (self.covariates, 200))
        )
        return EdgeCohort(genotypes(*self.dosages.shape, seed=99), phenotypes, covariates)


def genotypes(n, d, *, seed):
    return np.random.default_rng(seed).integers(0, 3, (n, d)).astype(np.float64)


def cells(n, *, seed):
    """Return normal numbers rounded to eighths, which are on the lattice for a power-of-two sd."""
    values = np.random.default_rng(seed).normal(size=n)
    return [f"{value:g}" for value in np.rint(8 * values) / 8]


def decimals(n, *, seed, scale=1.0):
    """Return normal numbers that the coding truncates."""
    return [f"{v:.6f}" for v in np.random.default_rng(seed).normal(scale=scale, size=n)]


def odd(values):
    """Return the cells with the first ones replaced by missing, infinite and extreme values."""
    first = ["inf", "-inf", "nan", "NA", "-9", "1e308", "-1e308", "-nan", "-9.0", "Infinity"]
    return [*first, *values[len(first) :]]


def _degenerate_columns():
    """Return twenty-four people with all kinds of degenerate columns and rows."""
    n = 24
    dosages = genotypes(n, 7, seed=1)
    dosages[7, 0] = np.nan
    dosages[:, 1], dosages[:, 2] = 1, 2  # monomorphic, at the centre and off it
    dosages[:, 3] = dosages[:, 0]  # a copy, so that X has no full rank
    dosages[:, 4] = np.nan  # no calls
    dosages[5] = np.nan
    phenotypes = {
        "plain": Column(decimals(n, seed=2)),
        "constant": Column(["1.25"] * n),
        "beyond": Column(["1e9"] * n),
        "absent": Column(["NA"] * n),
        "odd": Column(odd(decimals(n, seed=3))),
        "from_mean_up": Column(decimals(n, seed=4, scale=3.0), lower=0.0, upper=3.0),
        "far_from_zero": Column(
            [f"{170 + 10 * float(v):.4f}" for v in decimals(n, seed=5, scale=2.0)],
            lower=150.0, upper=200.0, mean=170.0, sd=16.0,
        ),
        "controls": Column(["0"] * n, lower=0.0, upper=1.0, mean=0.25, sd=0.5),
        "no_codes": Column(
            ["1", "2", "0", "3", "inf", "NA", "1.5", "-9", *("12"[i % 2] for i in range(n - 8))],
            lower=1.0, upper=2.0, mean=1.5, sd=0.5,
        ),
    }  # fmt: skip
    covariates = {
        "age": Column(cells(n, seed=6)),
        "ones": Column(["1"] * n),
        "none": Column(["nan"] * n),
        "odd_too": Column(odd(cells(n, seed=7))),
    }
    for columns in (phenotypes, covariates):  # person 5 has no values: a row of zeros
        for name, column in columns.items():
            row = [*column.cells[:5], "NA", *column.cells[6:]]
            columns[name] = replace(column, cells=row)
    return EdgeCohort(dosages, phenotypes, covariates)


ABSENT = Column(["NA"] * 9)
COHORTS = {
    "degenerate": _degenerate_columns(),
    "one variant, one phenotype": EdgeCohort(
        genotypes(13, 1, seed=10), {"y": Column(decimals(13, seed=11))}, {}
    ),
    "one person": EdgeCohort(
        genotypes(1, 3, seed=12), {"a": Column(["1.5"]), "b": Column(["NA"])}, {}
    ),
    "one of everything": EdgeCohort(
        genotypes(1, 1, seed=13), {"a": Column(["0.3"])}, {"c": Column(["-1.5"])}
    ),
    "fewer people than phenotypes and variants": EdgeCohort(
        genotypes(4, 9, seed=14),
        {f"y{j}": Column(decimals(4, seed=20 + j)) for j in range(9)},
        {"age": Column(cells(4, seed=15))},
    ),
    "nothing": EdgeCohort(np.full((9, 4), np.nan), {"a": ABSENT, "b": ABSENT}, {"c": ABSENT}),
}


def write_cohort(cohort, directory):
    directory.mkdir(parents=True, exist_ok=True)
    n, d = cohort.dosages.shape
    people = [f"person{i:04d}zq" for i in range(n)]
    bed_reader.to_bed(
        directory / "c.bed",
        cohort.dosages,
        properties={
            "fid": ["f"] * n,
            "iid": people,
            "chromosome": ["1"] * d,
            "sid": [f"rs{j}" for j in range(d)],
            "bp_position": list(range(100, 100 + d)),
            "allele_1": ["A"] * d,
            "allele_2": ["G"] * d,
        },
    )
    options: list[object] = ["--bfile", directory / "c"]
    for kind, columns in (("pheno", cohort.phenotypes), ("covar", cohort.covariates)):
        if columns:
            table, bounds = directory / f"{kind}.tsv", directory / f"{kind}.bounds.tsv"
            header = ["FID", "IID", *columns]
            rows = zip(["f"] * n, people, *(c.cells for c in columns.values()), strict=True)
            table.write_text("".join("\t".join(row) + "\n" for row in (header, *rows)))
            known = [f"{name}\t{c.lower!r}\t{c.upper!r}\t{c.mean!r}\t{c.sd!r}"
                     for name, c in columns.items()]  # fmt: skip
            bounds.write_text("\n".join(["name\tlower\tupper\tmean\tsd", *known]) + "\n")
            options += [f"--{kind}", table, f"--{kind}-bounds", bounds]
    return options


def _within(column, n, seed):
    if {column.lower, column.upper} in BINARY:
        return [f"{column.upper if (i * seed) % 3 else column.lower:g}" for i in range(n)]
    unit = np.random.default_rng(seed).uniform(0.2, 0.8, n)
    return [f"{column.lower + u * (column.upper - column.lower):.5f}" for u in unit]


# Largest factor that compensates missing values of a phenotype: docs/maths/sensitivity.md.
MOST_RESCALED = 10


@dataclass(frozen=True)
class Answer:
    per_allele: Float64  # weights in raw units, shape (d, l)
    fitted: Float64  # predictions for the cohort in raw units, shape (n, l)
    # Largest errors of weights and predictions from truncating phenotypes to lattice steps.
    weight_error: Float64
    fit_error: Float64


def right_answer(cohort, *, ridge, unit):
    """Return ridge regression (scikit-learn) or minimum-norm least squares (numpy) on the cells.

    Weights are linear in the phenotypes, so that errors of at most one lattice step, ``sd / unit``,
    change them by at most the absolute row sums of the matrix.
    """
    x, fixed = cohort.codes(), fixed_columns(cohort)
    y, steps = zip(*(_filled(column, unit) for column in cohort.phenotypes.values()), strict=True)
    y, steps = np.stack(y, axis=1), np.array(steps)
    onto_fixed = fixed @ np.linalg.pinv(fixed)
    residual = x - onto_fixed @ x
    residual[np.abs(residual) < 1e-12] = 0  # rounding errors, because codes are at most 1
    weights = _solve(residual, y - onto_fixed @ y, ridge)
    inverse = _solve(residual, np.eye(cohort.n) - onto_fixed, ridge)
    hat = onto_fixed + residual @ inverse
    means = np.array([column.mean for column in cohort.phenotypes.values()])
    return Answer(
        per_allele=weights,
        fitted=means + x @ weights + onto_fixed @ (y - x @ weights),
        weight_error=np.abs(inverse).sum(axis=1)[:, None] * steps,
        fit_error=np.abs(hat).sum(axis=1)[:, None] * steps,
    )


def fixed_columns(cohort):
    covariates = [column.values() - column.mean for column in cohort.covariates.values()]
    return np.stack([np.ones(cohort.n), *covariates], axis=1)


def _filled(column, unit):
    """Return a centred phenotype with compensated missing values, and one lattice step of it."""
    n, observed = len(column.cells), column.observed().sum()
    rescale = n / max(observed, n / MOST_RESCALED)
    return (column.values() - column.mean) * rescale, column.sd / unit * rescale


def _solve(x, y, ridge):
    if ridge:
        fitted = Ridge(alpha=ridge, fit_intercept=False, solver="cholesky").fit(x, y)
        return fitted.coef_.reshape(y.shape[1], -1).T
    return np.linalg.lstsq(x, y, rcond=1e-10)[0]


@dataclass(frozen=True)
class Recorder:
    client: Client
    sent: list[tuple[Any, ...]] = field(default_factory=list)

    def take(self):
        taken = list(self.sent)
        self.sent.clear()
        return taken


@dataclass(frozen=True)
class Released:
    cohort: EdgeCohort
    published: Published
    work: Path
    stdout: str
    stderr: str
    sent: list[tuple[Any, ...]]

    def stored(self, name):
        return json.loads((self.work / name).read_text())


def weights_in(release):
    published = Published(release)
    return np.vstack(
        [
            published.variant_weights.to_numpy(np.float64),
            published.intercept,
            published.covariate_weights,
        ]
    )


def sent_tasks(released):
    """Return the tasks sent to the cluster, without random names and the work directory."""
    sent = []
    for function, key, (path, store_id, *others), task in released.sent:
        assert others == ["auto", __version__]
        assert path == (released.work / "partials.zarr").resolve()
        assert key == (f"sums-{store_id}", task.key)
        sent.append((function, task.key, task))
    return sent


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

# Weights are printed with nine digits, and solving loses a few more.
RELATIVE_TOLERANCE = 1e-6


Release = Callable[..., Released]


@pytest.fixture(scope="module", autouse=True)
def recorder(tmp_path_factory):
    """Provide one local cluster for all runs, because starting one for each takes minutes."""
    scratch = tmp_path_factory.mktemp("scratch")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONWARNINGS", "error::RuntimeWarning")  # in the worker, started here
        with workers.dask_client(LocalProfile(1), scratch) as client:
            seen = Recorder(client)
            send = client.map

            def recorded(call, tasks, *, key, retries):
                for name, task in zip(key, tasks, strict=True):
                    seen.sent.append((call.func.__name__, name, *call.args, task))
                return send(call, tasks, key=key, retries=retries)

            patch.setattr(client, "map", recorded)
            patch.setattr(workers, "dask_client", lambda *_, **__: nullcontext(client))
            yield seen


@pytest.fixture(scope="module")
def release(run, recorder, tmp_path_factory):
    def released(cohort, *options):
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
def private(release):
    cohorts = {**COHORTS, ORDINARY: COHORTS[DEGENERATE].ordinary()}

    @functools.cache
    def made(name, kind):
        return release(cohorts[name], *BUDGET, *KINDS[kind], *BLOCKS.get(name, ()))

    return made


@pytest.fixture(scope="module")
def unprotected(release):
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
def test_a_private_release_has_its_noise_and_finite_weights(name, kind, private):
    released = private(name, kind)
    statement = released.published.statement
    queries = {query["name"] for query in statement["mechanism"]["queries"]}
    assert statement["guarantee"]["privacy"] == kind.split("-")[0]
    assert queries == PROTECTED[kind.split("-")[0]]
    weights = weights_in(released.published.path)
    assert np.isfinite(weights).all()
    d, l = released.cohort.dosages.shape[1], len(released.cohort.phenotypes)  # noqa: E741
    assert weights.shape == (d + 1 + len(released.cohort.covariates), l)


@pytest.mark.parametrize("name", thinned(COHORTS, every=len(COHORTS)))
def test_without_noise_weights_equal_numpy_and_scikit_learn(name, unprotected, run, tmp_path):
    """Tolerances are the printed digits and the largest error from truncating phenotypes."""
    released = unprotected(name)
    assert_right_answer(released.cohort, released.published, ridge=0)
    run("finalize", "--work-dir", released.work, "--non-private", "--ridge", 3,
        "--out", tmp_path / "penalised")  # fmt: skip
    assert_right_answer(released.cohort, Published(tmp_path / "penalised"), ridge=3)


def assert_right_answer(cohort, published, *, ridge):
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


def assert_close(found, expected, error):
    allowed = error + RELATIVE_TOLERANCE * (1 + np.abs(expected))
    assert np.all(np.abs(found - expected) <= allowed)


@pytest.mark.parametrize("kind", thinned(KINDS, every=len(KINDS)))
def test_tasks_for_the_cluster_do_not_reveal_an_odd_cohort(kind, private):
    """The cohorts share all public facts and no private ones."""
    odd, ordinary = private(DEGENERATE, kind), private(ORDINARY, kind)
    assert sent_tasks(odd) == sent_tasks(ordinary)
    assert len(odd.sent) == 1 + 4  # one row task, four blocks


@pytest.mark.parametrize("kind", thinned(KINDS, every=len(KINDS)))
def test_private_counts_appear_only_in_private_files(kind, private, recorder):
    released = private(DEGENERATE, kind)
    lines = released.stdout.splitlines()
    assert [line.split(": ")[0] for line in lines] == ["statistics sha256", "release"]
    # All lines on the terminal are log lines, and also in the private run.log.
    log = (released.work / "run.log").read_text()
    shown = [line.strip().removeprefix("warning: ") for line in released.stderr.splitlines()]
    headings = {"Inputs", "Warnings", "Forecast", "Needs"}
    assert [line for line in shown if line not in log and line not in headings] == []
    notes = ("24 genotyped people matched", "no_codes: 3 values other than its codes",
             "controls: 0 cases among")  # fmt: skip
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


# First row of the bounds or options, exit code, and part of the error line, by name.
REFUSED = {
    "bounds of zero width": ("plain\t1\t1\t1\t1", (), 3, "not an increasing range"),
    "endless bound": ("plain\t-inf\t2\t0\t1", (), 3, "Give both bounds"),
    "far bound": ("plain\t-2\t99\t0\t1", (), 3, "too far from its mean"),
    "row norm of zero": (None, ("--row-norm", 0), 2, "--row-norm"),
    "subsample of everybody": (None, ("--subsample", 24), 2, "smaller than the cohort"),
    "ld blocks of none": (None, ("--ld-blocks", "window:0"), 2, "--ld-blocks"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_do_not_depend_on_private_values(case, run, tmp_path):
    row, options, exit_code, said = REFUSED[case]
    cohort, errors = COHORTS[DEGENERATE], []
    for name, values in ((DEGENERATE, cohort), (ORDINARY, cohort.ordinary())):
        directory = tmp_path / name
        asked = [*write_cohort(values, directory), *BUDGET, *options]
        if row is not None:
            path = directory / "pheno.bounds.tsv"
            lines = path.read_text().splitlines()
            path.write_text("\n".join([lines[0], row, *lines[2:]]) + "\n")
        refused = run(
            "gwas_release", *asked, "--workers", 1, "--out", directory / "release",
            "--ledger", directory / "ledger.sqlite", exit_code=exit_code,
        )  # fmt: skip
        assert not (directory / "release").exists()
        assert not (directory / "ledger.sqlite").exists()  # nothing was paid
        errors.append(refused.stderr.splitlines()[-1].replace(str(directory), "IN"))
    assert said in errors[0]
    assert errors[0] == errors[1]
