"""Private releases of the real data sets: one payment, free repetition, no private content."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import zarr
from acceptance_inputs import Published, RealSet, texts

EPSILON, DELTA = 5.0, 1e-6
N_VARIANTS = {"1000g": 250, "hapmap3": 1_200, "regenie": 600}
FIT = re.compile(r"in.sample|R\s*(\^|<sup>)\s*2|R²|r_?squared|\br_?2\b", re.IGNORECASE)
DIGEST = re.compile(r"\b[0-9a-f]{64}\b")


@dataclass(frozen=True)
class Run:
    """Finished private release, with the options of its command."""

    inputs: RealSet
    published: Published
    work: Path
    ledger: Path
    options: list[object]
    stdout: str

    @property
    def log(self) -> str:
        return (self.work / "run.log").read_text()

    def asked(self, *, epsilon: float = EPSILON, out: Path | None = None) -> list[object]:
        """Return the options of the command, optionally with another epsilon or destination."""
        return [*self.options, "--epsilon", epsilon, "--delta", DELTA,
                "--out", out or self.published.path]  # fmt: skip


@pytest.fixture(scope="module")
def released(real_sets, run, tmp_path_factory) -> Callable[[str], Run]:
    """Provide a function that returns the release of a data set, made at the first call."""
    return functools.cache(
        lambda name: make_release(real_sets[name], run, tmp_path_factory.mktemp(name))
    )


@pytest.fixture(params=N_VARIANTS, ids=str)
def private(request, released) -> Run:
    return released(request.param)


@pytest.fixture
def one(released) -> Run:
    """Provide a release whose command tests may repeat."""
    return released("regenie")


def make_release(inputs: RealSet, run, directory: Path) -> Run:
    listed = directory / "variants.txt"
    listed.write_text("\n".join(inputs.bim["ID"][: N_VARIANTS[inputs.name]]) + "\n")
    work, ledger = directory / "work", directory / "ledger.sqlite"
    options = [*inputs.options, "--extract", listed, "--ref-freq", inputs.frequencies,
               "--ld-blocks", "window:50", "--work-dir", work,
               "--ledger", ledger, "--accept-noise"]  # fmt: skip
    planned = Run(inputs, Published(directory / "release"), work, ledger, options, "")
    done = run("gwas_release", *planned.asked())
    assert "verified:" in run("verify", planned.published.path).stdout
    return Run(inputs, planned.published, work, ledger, options, done.stdout)


def test_release_states_full_privacy_of_one_persons_row(private: Run) -> None:
    statement = private.published.statement
    guarantee = statement["guarantee"]
    assert statement["private"] is True
    assert statement["unprotected"] == []
    assert (guarantee["epsilon"], guarantee["delta"]) == (EPSILON, DELTA)
    assert guarantee["privacy"] == "full"
    assert guarantee["adjacency"] == "replace-one"
    assert {query["name"] for query in statement["mechanism"]["queries"]} == {
        "gram", "fixed_cross", "phenotype_cross", "fixed_gram", "fixed_phenotype",
        "phenotype_gram", "observed",
    }  # fmt: skip
    assert statement["stamp"].startswith("(5, 1e-06)-differentially private")


def test_release_states_its_accuracy(private: Run) -> None:
    size = private.published.statement["accuracy"]["effective_sample_size"]
    # Full privacy of some hundred people leaves little accuracy, which the release states.
    assert 0 < size < 0.5 * len(private.inputs.people)
    report = (private.published.path / "report.html").read_text()
    assert "ffective sample size" in report
    assert "effective sample size" in (private.published.path / "release.log").read_text()


def test_no_fit_to_the_cohort_is_stated_but_missing_components(private: Run) -> None:
    """LD blocks are fitted separately and all predict ancestry, which their sum counts repeatedly.

    For eleven populations without components the R^2 of the blocks in the sample adds up to 1.37,
    while the predictions explain -0.92.
    """
    said = {**texts(private.published.path), "terminal": private.stdout, "run.log": private.log}
    assert {name: FIT.findall(text) for name, text in said.items() if FIT.search(text)} == {}
    warned = "No covariate is named as a principal component"
    for text in (said["report.html"], private.log):
        assert warned in " ".join(text.split())


def test_every_phenotype_has_weights_and_a_pgs_file(private: Run) -> None:
    names = list(private.inputs.table(private.inputs.pheno).columns)
    weights = private.published.variant_weights
    assert list(weights.columns) == names
    assert len(weights) == N_VARIANTS[private.inputs.name]
    assert all(map(math.isfinite, weights.to_numpy().ravel()))
    stems = {
        path.name.removesuffix(".txt.gz") for path in (private.published.path / "pgs").iterdir()
    }
    assert stems == set(names)


def test_nothing_private_is_in_the_release(private: Run) -> None:
    text = "\n".join(texts(private.published.path).values())
    public = {private.published.statement["public_inputs"]["reference_frequencies"]["sha256"]}
    digests = digests_in(private.work) | set(DIGEST.findall(private.stdout))
    assert len(digests) > 10
    assert [digest for digest in digests - public if digest[:12] in text] == []

    paths = (private.inputs.bfile, private.inputs.pheno, private.work, private.ledger)
    assert [path for path in paths if str(path) in text] == []
    people = {person for _, person in private.inputs.people if not person.isdecimal()}
    assert people or private.inputs.name == "regenie"
    assert people.isdisjoint(re.findall(r"\w+", text))


def test_no_exact_statistic_is_in_the_release(private: Run) -> None:
    statistics = zarr.open_group(private.work / "statistics.zarr", mode="r")
    exact = {int(value) for value in statistics["outcome_gram"][:].diagonal()[1:]}
    exact |= {int(value) for value in statistics["gram/0"][:].diagonal()}
    counts = {int(count) for count in statistics["observed"][:]} - {len(private.inputs.people)}
    assert counts or private.inputs.name != "hapmap3"
    document = {**private.published.statement, "files": None}
    assert exact.isdisjoint(numbers(document))
    assert counts.isdisjoint(numbers(document))
    for name in ("report.html", "release.log"):
        text = (private.published.path / name).read_text()
        # The number itself, not digits within a digest, a key or another number.
        words = re.findall(r"(?<![\w.])\d[\d,]*(?!\w|\.\d*[1-9])", text)
        assert {str(count) for count in counts}.isdisjoint(word.replace(",", "") for word in words)


def test_same_command_again_spends_nothing(one: Run, run) -> None:
    before, files = run("ledger", "show", "--ledger", one.ledger).stdout, texts(one.work)
    release = texts(one.published.path)
    again = run("gwas_release", *one.asked())
    assert "this release is published already" in again.stderr
    assert again.stdout.splitlines()[0] == one.stdout.splitlines()[0]
    assert run("ledger", "show", "--ledger", one.ledger).stdout == before
    assert texts(one.published.path) == release
    assert noise_of(texts(one.work)) == noise_of(files)


def test_another_destination_gets_the_same_noise_at_no_cost(one: Run, run, tmp_path) -> None:
    before = charges(run("ledger", "show", "--ledger", one.ledger).stdout)
    noise = noise_of(texts(one.work))
    run("gwas_release", *one.asked(out=tmp_path / "copy"))
    assert charges(run("ledger", "show", "--ledger", one.ledger).stdout) == before
    assert noise_of(texts(one.work)) == noise
    copy, original = texts(tmp_path / "copy"), texts(one.published.path)
    assert copy["weights.tsv.gz"] == original["weights.tsv.gz"]
    run("verify", tmp_path / "copy")


def test_a_second_release_is_refused_when_the_budget_is_spent(one: Run, run, tmp_path) -> None:
    before = run("ledger", "show", "--ledger", one.ledger).stdout
    work = tmp_path / "work"
    options = [*one.options, "--work-dir", work]
    done = run("gwas_release", *options, "--epsilon", 1, "--delta", DELTA,
               "--out", tmp_path / "second", exit_code=6)  # fmt: skip
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert "the privacy budget does not cover this release" in error
    assert "set-budget" in error
    assert not (tmp_path / "second").exists()
    assert not (work / "private_statistics").exists()
    assert run("ledger", "show", "--ledger", one.ledger).stdout == before
    run("ledger", "verify", "--ledger", one.ledger)


def test_every_file_of_a_release_without_noise_is_marked(real_sets, run, tmp_path) -> None:
    inputs: RealSet = real_sets["regenie"]
    listed = tmp_path / "variants.txt"
    listed.write_text("\n".join(inputs.bim["ID"][:20]) + "\n")
    out = tmp_path / "release"
    run("gwas_release", *inputs.options, "--extract", listed, "--non-private",
        "--out", out)  # fmt: skip
    files = texts(out)
    assert set(files) == {"weights.tsv.gz", "centre.afreq", "release.json", "report.html",
                          "release.log", "README.txt", "covariates.tsv", "pgs/Y1.txt.gz",
                          "pgs/Y2.txt.gz"}  # fmt: skip
    assert [name for name, text in files.items() if not re.search("NOT[ _]PRIVATE", text)] == []
    assert [name for name, text in files.items() if FIT.search(text)] == []
    assert Published(out).statement["guarantee"] is None
    assert "NOT PRIVATE" in run("verify", out).stdout


def noise_of(work: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in work.items() if name.startswith("private_statistics")}


def digests_in(work: Path) -> set[str]:
    """Return every SHA-256 digest in the work directory."""
    files = texts(work)
    lines = [text for name, text in files.items() if name.endswith((".json", ".log"))]
    return {digest for text in lines for digest in DIGEST.findall(text)}


def charges(shown: str) -> list[str]:
    """Return the lines of the charges and of the spent amounts."""
    return [line for line in shown.splitlines() if line.strip().startswith(("charge", "spent"))]


def numbers(value: Any) -> set[float]:
    """Return every number in a JSON value."""
    if isinstance(value, dict):
        return set().union(*map(numbers, value.values())) if value else set()
    if isinstance(value, list):
        return set().union(*map(numbers, value)) if value else set()
    return {value} if isinstance(value, int | float) and not isinstance(value, bool) else set()
