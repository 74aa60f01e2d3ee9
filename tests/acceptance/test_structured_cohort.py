"""A cohort of eleven populations without principal components: what its releases may not state.

Each LD block is fitted alone, so that ancestry, which every block predicts, counts once a block in
their sum. The in-sample R^2 of QT1, added up over blocks, came to 1.37 in the release without
noise, whose predictions explain -0.92, and to 0.63 +- 0.24 in the private one, whose predictions
explain 0.11.
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
    """A release, what the command printed, and its log."""

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


def test_missing_principal_components_are_warned_of(structured: Run) -> None:
    report = (structured.published.path / "report.html").read_text()
    for text in (structured.printed, structured.log, report):
        assert "No covariate is named as a principal component" in " ".join(text.split())
