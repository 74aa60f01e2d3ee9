"""``python -m pipelines.verify DIR``: its output and exit codes."""

from support.release_examples import PUBLIC_KEY
from support.small_cohort import command, succeeded

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


def test_an_expected_key(pristine):
    result = succeeded(command(main, pristine[True], "--public-key", PUBLIC_KEY))
    assert f"by {PUBLIC_KEY}, as expected" in result.output
    assert "WARNING" not in result.output
    result = command(main, pristine[True], "--public-key", "0" * 64)
    assert result.exit_code == 1
    assert "PROBLEM  signature" in result.output
