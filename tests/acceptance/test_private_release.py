"""Private releases of the real data sets: what they state, and that nothing private is in them."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import zarr
from support.acceptance_inputs import Published, RealSet, texts

EPSILON, DELTA = 5.0, 1e-6
N_VARIANTS = 600
FIT = re.compile(r"in.sample|R\s*(\^|<sup>)\s*2|R²|r_?squared|\br_?2\b", re.IGNORECASE)
# What a release expects from public sizes alone.
EXPECTED = re.compile(
    r'R(\^|<sup>)2(</sup>)? [\d.e-]+ (<small>)?(expected|in other people)|"r_squared":'
)
DIGEST = re.compile(r"\b[0-9a-f]{64}\b")


@dataclass(frozen=True)
class Run:
    inputs: RealSet
    published: Published
    work: Path
    ledger: Path
    stdout: str

    @property
    def log(self) -> str:
        return (self.work / "run.log").read_text()


@pytest.fixture(scope="module")
def private(real_sets, run, tmp_path_factory) -> Run:
    inputs: RealSet = real_sets["regenie"]
    directory = tmp_path_factory.mktemp("regenie")
    listed = directory / "variants.txt"
    listed.write_text("\n".join(inputs.bim["ID"][:N_VARIANTS]) + "\n")
    out, work, ledger = (directory / name for name in ("release", "work", "ledger.sqlite"))
    done = run("gwas_release", *inputs.options, "--extract", listed, "--ref-freq",
               inputs.frequencies, "--ld-blocks", "window:50", "--work-dir", work,
               "--ledger", ledger, "--accept-noise", "--epsilon", EPSILON, "--delta", DELTA,
               "--out", out)  # fmt: skip
    assert "verified:" in run("verify", out).stdout
    return Run(inputs, Published(out), work, ledger, done.stdout)


def test_no_fit_to_the_cohort_is_stated_but_missing_components(private: Run) -> None:
    """LD blocks are fitted separately: all predict ancestry, which their sum counts repeatedly."""
    said = {**texts(private.published.path), "terminal": private.stdout, "run.log": private.log}
    said = {name: EXPECTED.sub("", text) for name, text in said.items()}
    assert {name: FIT.findall(text) for name, text in said.items() if FIT.search(text)} == {}
    warned = "No covariate is named as a principal component"
    for text in (said["report.html"], private.log):
        assert warned in " ".join(text.split())


def test_nothing_private_is_in_the_release(private: Run) -> None:
    text = "\n".join(texts(private.published.path).values())
    public = {private.published.statement["public_inputs"]["reference_frequencies"]["sha256"]}
    digests = digests_in(private.work) | set(DIGEST.findall(private.stdout))
    assert len(digests) > 10
    assert [digest for digest in digests - public if digest[:12] in text] == []

    paths = (private.inputs.bfile, private.inputs.pheno, private.work, private.ledger)
    assert [path for path in paths if str(path) in text] == []


def test_no_exact_statistic_is_in_the_release(private: Run) -> None:
    statistics = zarr.open_group(private.work / "statistics.zarr", mode="r")
    exact = {int(value) for value in statistics["outcome_gram"][:].diagonal()[1:]}
    exact |= {int(value) for value in statistics["gram/0"][:].diagonal()}
    counts = {int(count) for count in statistics["observed"][:]} - {len(private.inputs.people)}
    document = {**private.published.statement, "files": None}
    assert exact.isdisjoint(numbers(document))
    assert counts.isdisjoint(numbers(document))
    for name in ("report.html", "README.txt"):
        text = re.sub(r"<[^>]*>", " ", (private.published.path / name).read_text())
        # The number itself, not digits within a digest, a key or another number.
        words = re.findall(r"(?<![\w.])\d[\d,]*(?!\w|\.\d*[1-9])", text)
        assert {str(count) for count in counts}.isdisjoint(word.replace(",", "") for word in words)


def test_every_file_of_a_release_without_noise_is_marked(real_sets, run, tmp_path) -> None:
    inputs: RealSet = real_sets["regenie"]
    listed = tmp_path / "variants.txt"
    listed.write_text("\n".join(inputs.bim["ID"][:20]) + "\n")
    out = tmp_path / "release"
    run("gwas_release", *inputs.options, "--extract", listed, "--non-private",
        "--out", out)  # fmt: skip
    files = texts(out)
    assert set(files) == {"weights.tsv.gz", "centre.afreq", "release.json", "report.html",
                          "README.txt", "covariates.tsv", "pgs/Y1.txt.gz",
                          "pgs/Y2.txt.gz"}  # fmt: skip
    assert [name for name, text in files.items() if not re.search("NOT[ _]PRIVATE", text)] == []
    assert [name for name, text in files.items() if FIT.search(EXPECTED.sub("", text))] == []
    assert Published(out).statement["guarantee"] is None
    assert "NOT PRIVATE" in run("verify", out).stdout


def digests_in(work: Path) -> set[str]:
    files = texts(work)
    lines = [text for name, text in files.items() if name.endswith((".json", ".log"))]
    return {digest for text in lines for digest in DIGEST.findall(text)}


def numbers(value: Any) -> set[float]:
    if isinstance(value, dict):
        return set().union(*map(numbers, value.values())) if value else set()
    if isinstance(value, list):
        return set().union(*map(numbers, value)) if value else set()
    return {value} if isinstance(value, int | float) and not isinstance(value, bool) else set()
