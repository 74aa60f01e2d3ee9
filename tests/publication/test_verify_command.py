"""``python -m pipelines.verify DIR``: its output and exit codes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from release_edits import forge, read_document
from release_examples import PUBLIC_KEY

from primo_scale.cli.verify import main

ROOT = Path(__file__).resolve().parents[2]


def test_a_good_release(pristine):
    command = [sys.executable, "-m", "pipelines.verify", str(pristine[True])]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert all(line.startswith("ok ") for line in lines[:-1])
    assert "recomputed 4.999995 at delta 1e-07" in result.stdout
    assert lines[-1].startswith("verified: ")


def test_a_damaged_release(release):
    (release / "weights.tsv.gz").write_bytes(b"")
    result = CliRunner().invoke(main, [str(release)])
    assert result.exit_code == 1
    assert "PROBLEM  files" in result.output
    assert "weights.tsv.gz has another size than stated" in result.output
    assert result.output.splitlines()[-1].startswith("NOT VERIFIED: 1 of ")


def test_a_release_without_noise_is_intact_but_never_called_verified(pristine):
    result = CliRunner().invoke(main, [str(pristine[False])])
    assert result.exit_code == 0
    assert result.output.splitlines()[-1].startswith("intact, but NOT PRIVATE")
    assert "verified" not in result.output


def test_a_release_of_another_version(release):
    document = read_document(release)
    document["software"]["version"] = "0.0.9"
    forge(release, document)
    result = CliRunner().invoke(main, [str(release), "--public-key", PUBLIC_KEY])
    assert result.exit_code == 0
    assert "note     texts          of version 0.0.9, not compared" in result.output
    assert CliRunner().invoke(main, [str(release)]).exit_code == 1


def test_no_release(tmp_path):
    for directory in (tmp_path, tmp_path / "absent"):
        result = CliRunner().invoke(main, [str(directory)])
        assert result.exit_code == 3
        assert result.output.count("\n") == 1
        assert "holds no release" in result.output


def test_an_expected_key(pristine):
    result = CliRunner().invoke(main, [str(pristine[True]), "--public-key", PUBLIC_KEY])
    assert result.exit_code == 0
    assert f"by {PUBLIC_KEY}, as expected" in result.output
    result = CliRunner().invoke(main, [str(pristine[True]), "--public-key", "0" * 64])
    assert result.exit_code == 1
    assert "PROBLEM  signature" in result.output


@pytest.mark.parametrize("key", ["", "abc", "0" * 63, "g" * 64])
def test_what_is_no_key_is_a_usage_error(key, pristine):
    result = CliRunner().invoke(main, [str(pristine[True]), "--public-key", key])
    assert result.exit_code == 2
    assert "is no Ed25519 public key" in result.output
