"""Genome build, given by any of its names or inferred from known variants."""

import pytest

from primo_scale.errors import UsageError
from primo_scale.run.request import to_build_name


@pytest.mark.parametrize("text", ["", "37", "T2T", "GRCh39", "hg19 "])
def test_unknown_build_names_are_refused(text):
    with pytest.raises(UsageError, match=f"not a valid choice .got {text}"):
        to_build_name(text)
