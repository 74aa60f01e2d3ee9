"""``python -m pipelines.verify DIR``: its output and exit codes."""

import os
import subprocess

import pytest
from support.command_io import error_in
from support.processes import command_of
from support.release_examples import PUBLIC_KEY
from support.small_cohort import command, refused, succeeded

from primo_scale.cli.commands import verify as main


def test_a_good_release(pristine):
    result = command(main, pristine[True])
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert all(line.startswith("ok ") for line in lines[:-4])
    assert lines[-4].startswith("guarantee, recomputed: epsilon 5, delta 1e-07, mu 0.94")
    assert "hiding one person's whole row (replace-one)" in lines[-4]
    assert "are the signer's word" in lines[-3]
    assert lines[-2].startswith("WARNING: NO --public-key WAS GIVEN")
    assert "recomputed 4.999995 at delta 1e-07" in result.stdout
    assert lines[-1].startswith("verified: ")


def test_a_damaged_release(release):
    (release / "weights.tsv.gz").write_bytes(b"")
    result = command(main, release)
    assert result.exit_code == 1
    assert "PROBLEM  files" in result.output
    assert "weights.tsv.gz has another size than stated" in result.output
    assert result.output.splitlines()[-1].startswith("NOT VERIFIED: 1 of ")


def test_a_release_without_noise_is_intact_but_never_called_verified(pristine):
    result = succeeded(command(main, pristine[False]))
    assert result.output.splitlines()[-1].startswith("intact, but NOT PRIVATE")
    assert "verified" not in result.output


def test_no_release(tmp_path):
    for directory in (tmp_path, tmp_path / "absent"):
        result = command(main, directory)
        refused(result, 3, "holds no release")
        assert result.output.count("\n") == 1


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_nothing_is_printed_after_the_reader_has_left(pristine, monkeypatch, unbuffered):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    reader, writer = os.pipe()
    os.close(reader)
    words = command_of("verify", [pristine[True]])
    done = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", [[], ["--help"]], ids=["command", "help"])
def test_a_full_standard_output_is_named(pristine, monkeypatch, unbuffered, words):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command_of("verify", [pristine[True], *words]),
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 4
    assert error_in(done.stderr).startswith("error: standard output: cannot be written: No space")


def test_an_expected_key(pristine):
    result = succeeded(command(main, pristine[True], "--public-key", PUBLIC_KEY))
    assert f"by {PUBLIC_KEY}, as expected" in result.output
    assert "WARNING" not in result.output
    result = command(main, pristine[True], "--public-key", "0" * 64)
    assert result.exit_code == 1
    assert "PROBLEM  signature" in result.output


@pytest.mark.parametrize("key", ["", "abc", "0" * 63, "g" * 64])
def test_what_is_no_key_is_a_usage_error(key, pristine):
    result = command(main, pristine[True], "--public-key", key)
    refused(result, 2, "is no Ed25519 public key")
