"""The experiment with LDSC, without LDSC."""

import gzip

import click
import pytest

from experiments.ld_score_regression import LDSC


def test_a_failure_of_ldsc_is_reported_with_its_output(tmp_path):
    command = tmp_path / "munge_sumstats.py"
    command.write_text("#!/bin/sh\necho no variants\nexit 1\n")
    command.chmod(0o700)
    table = tmp_path / "release" / "sumstats" / "P.tsv.gz"
    table.parent.mkdir(parents=True)
    table.write_bytes(gzip.compress(b""))
    tool = LDSC(tmp_path, tmp_path, tmp_path / "others")
    with pytest.raises(click.ClickException, match="failed: no variants"):
        tool.estimate(tmp_path / "release", "P", "default", None)
