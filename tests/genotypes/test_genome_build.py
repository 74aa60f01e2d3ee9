"""Genome build, given by any of its names or inferred from known variants."""

import pytest

from primo_scale.errors import UsageError
from primo_scale.run.request import to_build_name


@pytest.mark.parametrize(
    "text, name",
    [("hg19", "GRCh37"), ("b37", "GRCh37"), ("grch37", "GRCh37"), ("HG38", "GRCh38"),
     ("GRCh38", "GRCh38"), ("hg18", "NCBI36"), ("NR", "NR")],
)  # fmt: skip
def test_builds_have_their_usual_aliases(text, name):
    assert to_build_name(text) == name


@pytest.mark.parametrize("text", ["", "37", "T2T", "GRCh39", "hg19 "])
def test_unknown_build_names_are_refused(text):
    with pytest.raises(UsageError, match=f"not a valid choice .got {text}"):
        to_build_name(text)
