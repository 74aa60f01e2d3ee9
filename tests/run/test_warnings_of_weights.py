"""Phenotypes whose weights are all 0 are named, which a release does not show at a glance."""

import re

from small_cohort import Cohort, succeeded, write_cohort


def test_phenotypes_without_weights_are_named(tmp_path):
    cohort = Cohort(write_cohort(tmp_path / "inputs", names=("VARIES", "SAME")))
    table = cohort.folder / "pheno.tsv"
    table.write_text(re.sub(r"\d$", "2", table.read_text(), flags=re.MULTILINE))
    output = succeeded(cohort.release("--non-private", budget=[])).stderr
    (said,) = [line for line in output.splitlines() if "all weights are 0" in line]
    assert "of 1 of 2 phenotypes" in said
    assert said.endswith(": SAME")
