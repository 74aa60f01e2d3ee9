"""What a run says of its accuracy and its budget before it sums or spends anything."""

from __future__ import annotations

import re
import shlex

import pytest
from small_cohort import command, outcomes, write_cohort

from primo_scale.cli.accumulate import main as accumulate
from primo_scale.cli.finalize import main as finalize
from primo_scale.cli.ingest import main as ingest
from primo_scale.cli.ledger import main as ledger_command
from primo_scale.cli.release import main as gwas_release
from primo_scale.ledger.ledger import Ledger

TOO_SMALL = 0.05
NOISE = "the weights of this release would be noise"
FORECAST = re.compile(
    r"forecast: effective sample size about (\S+) of 44; scores are expected to explain (\S+) of "
    r"the variance of a trait of heritability 0\.3 in other people, and (\S+) without noise"
)


@pytest.fixture
def cohort(tmp_path):
    return write_cohort(tmp_path / "inputs")


@pytest.fixture
def release(cohort, tmp_path):
    """A private release of 44 people."""
    return [
        "--bfile", cohort / "cohort", *outcomes(cohort), "--delta", 1e-6,
        "--epsilon", 1, "--out", tmp_path / "release", "--ledger", tmp_path / "ledger.sqlite",
    ]  # fmt: skip


def refused_as_noise(result):
    last = result.stderr.strip().splitlines()[-1]
    return result.exit_code == 2 and last.startswith("error: --epsilon: ") and NOISE in last


@pytest.mark.parametrize("options", [["--dry-run"], []])
def test_noise_is_refused_before_anything_is_read(release, tmp_path, options):
    result = command(gwas_release, *release, "--epsilon", TOO_SMALL, *options)
    assert refused_as_noise(result)
    assert "--accept-noise" in result.stderr
    size, explained, without = (float(x) for x in FORECAST.search(result.stderr).groups())
    assert 0 < size < 44 and 0 <= explained < 0.01 and explained < without < 0.3
    assert not (tmp_path / "ledger.sqlite").exists()
    assert not (tmp_path / "release.work" / "genotypes.zarr").exists()


def test_every_stage_refuses_noise(cohort, tmp_path):
    store, work = cohort / "genotypes.zarr", tmp_path / "work"
    assert command(ingest, "--bfile", cohort / "cohort", "--out", store).exit_code == 0
    budget = ["--epsilon", TOO_SMALL, "--delta", 1e-6]
    planned = ["--genotypes", store, *outcomes(cohort), "--work-dir", work]
    assert refused_as_noise(command(accumulate, *planned, *budget))
    assert not (work / "statistics.zarr").exists()
    # Without a budget nothing is known of the noise.
    assert command(accumulate, *planned).exit_code == 0
    ledger, out = tmp_path / "ledger.sqlite", tmp_path / "release"
    finish = ["--work-dir", work, "--out", out, "--ledger", ledger, *budget]
    assert refused_as_noise(command(finalize, *finish))
    assert not ledger.exists()
    accepted = command(finalize, *finish, "--accept-noise")
    assert accepted.exit_code == 0, accepted.stderr
    assert "the weights of this release will be noise" in accepted.stderr
    assert "will be noise" in (work / "run.log").read_text()
    assert (out / "release.json").exists()


def opening(stderr):
    """The command that opens a larger budget, as the warning prints it."""
    (found,) = re.findall(
        r"this release opens one of epsilon 1 at delta 1e-06 and spends all of it\. To allow "
        r"further releases, set a larger one first: primo-scale ledger (.*)",
        stderr,
    )
    return shlex.split(found.split(";")[0])


def test_opening_a_budget_is_announced_with_the_command_that_opens_a_larger_one(release, tmp_path):
    planned = command(gwas_release, *release, "--dry-run")
    words = ["7.5" if word == "E" else word for word in opening(planned.stderr)]
    assert "then give --cohort NAME here too" in planned.stderr
    assert not (tmp_path / "ledger.sqlite").exists()
    opened = command(ledger_command, *words)
    assert opened.exit_code == 0, opened.output
    result = command(gwas_release, *release, "--cohort", "NAME", "--dry-run")
    assert result.exit_code == 0, result.stderr
    assert "opens one of" not in result.stderr
    with Ledger(tmp_path / "ledger.sqlite", create=False) as ledger:
        (balance,) = ledger.balances()
    assert (balance.account.cohort, balance.budget.epsilon) == ("NAME", 7.5)


def test_in_a_known_ledger_the_command_names_the_people(release, tmp_path):
    with Ledger(tmp_path / "ledger.sqlite"):
        pass
    planned = command(gwas_release, *release, "--dry-run")
    words = ["7.5" if word == "E" else word for word in opening(planned.stderr)]
    assert command(ledger_command, *words).exit_code == 0
    result = command(gwas_release, *release)
    assert result.exit_code == 0, result.stderr
    assert "opens one of" not in result.stderr and "had no budget" not in result.stderr
