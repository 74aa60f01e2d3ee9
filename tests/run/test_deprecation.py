"""Deprecated options have their effect, and a line that says what replaces them."""

from support.small_cohort import BUDGET, Cohort, succeeded


def test_a_deprecated_shrinkage_is_used_and_warned_of(ingested: Cohort) -> None:
    succeeded(ingested.accumulate(*BUDGET, "--accept-noise"))
    found = succeeded(ingested.finalize("--accept-noise", "--shrinkage", "sure"))
    warning = "--shrinkage sure is deprecated since 0.3.0, and 0.5.0 removes it: known-noise"
    assert found.stderr.count(warning) == 1
