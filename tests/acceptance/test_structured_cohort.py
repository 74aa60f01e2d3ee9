"""Releases of eleven populations without principal components do not state a fit to the cohort.

LD blocks are fitted separately and all predict ancestry, so that the sum of their predictions
counts ancestry once per block. For QT1 without noise, the in-sample R^2 of the blocks adds up to
1.37, but the predictions explain -0.92; with noise these are 0.63 +- 0.24 and 0.11.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from acceptance_inputs import Published

BUDGET = ("--epsilon", 8, "--delta", 1e-6, "--accept-noise")
FIT = re.compile(r"in.sample|R\s*(\^|<sup>)\s*2|R²|r_?squared|\br_?2\b", re.IGNORECASE)


@dataclass(frozen=True)
class Run:
    """Release, with the output and the log of its command."""

    published: Published
    printed: str
    log: str


@pytest.fixture(scope="module", params=["private", "non-private"])
def structured(request, real_sets, run, tmp_path_factory) -> Run:
    folder = tmp_path_factory.mktemp(request.param)
    hapmap = real_sets["hapmap3"]
    every_tenth = folder / "variants.txt"
    every_tenth.write_text("\n".join(hapmap.bim["ID"][::10]) + "\n")
    privacy = BUDGET if request.param == "private" else ("--non-private",)
    done = run(
        "gwas_release", *hapmap.options, "--ref-freq", hapmap.frequencies, "--ld-blocks",
        "window:50", "--extract", every_tenth, *privacy, "--ledger", folder / "ledger.sqlite",
        "--work-dir", folder / "work", "--out", folder / "release",
    )  # fmt: skip
    log = (folder / "work" / "run.log").read_text()
    return Run(Published(folder / "release"), done.stdout + done.stderr, log)


def test_no_fit_to_the_cohort_is_stated(structured: Run) -> None:
    said = {
        path.name: path.read_text()
        for path in structured.published.path.iterdir()
        if path.suffix in (".json", ".html", ".log")
    }
    said |= {"terminal": structured.printed, "run.log": structured.log}
    assert len(said) == 5
    assert {name: FIT.findall(text) for name, text in said.items() if FIT.search(text)} == {}


def test_missing_principal_components_give_a_warning(structured: Run) -> None:
    report = (structured.published.path / "report.html").read_text()
    for text in (structured.printed, structured.log, report):
        assert "No covariate is named as a principal component" in " ".join(text.split())
