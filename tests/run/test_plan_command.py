"""What a plan says of bounds, accuracy and budget, before it sums or spends anything."""

import re
import shlex

import pytest
from support.small_cohort import command, refused, succeeded

from primo_scale.cli.commands import ledger as ledger_command
from primo_scale.cli.commands import plan
from primo_scale.ledger.ledger import Ledger

BUDGET = ("--epsilon", 1, "--delta", 1e-6)
TOO_SMALL = ("--epsilon", 0.05, "--delta", 1e-6)
FORECAST = re.compile(
    r"R\^2 (\S+) in other people, (\S+) without noise.*\n"
    r"  as accurate as (\S+) of 44 people without noise, for a heritability of 0\.3"
)


@pytest.mark.parametrize("options", [["--dry-run"], []])
def test_noise_is_refused_before_anything_is_read(cohort, options):
    result = cohort.release(*options, budget=TOO_SMALL)
    words = "--epsilon: the weights of this release would be noise"
    refused(result, 2, words, "--accept-noise")
    explained, without, size = (float(x) for x in FORECAST.search(result.stderr).groups())
    assert 0 < size < 44 and 0 <= explained < 0.01 and explained < without < 0.3
    assert not cohort.ledger.exists()
    assert not list(cohort.folder.rglob("genotypes.zarr"))


def opening(stderr):
    """Return the words of the command that opens a larger budget, as the warning prints it."""
    (found,) = re.findall(r"a larger budget: primo-scale ledger (.*)", stderr)
    return ["7.5" if word == "E" else word for word in shlex.split(found.split(";")[0])]


def test_opening_a_budget_is_announced_with_the_command_that_opens_a_larger_one(cohort):
    planned = cohort.release("--dry-run", "--verbose", budget=BUDGET)
    assert "opens one of epsilon 1 at delta 1e-06 and spends all of it" in planned.stderr
    assert "then give --cohort NAME here too" in planned.stderr
    assert not cohort.ledger.exists()
    succeeded(command(ledger_command, *opening(planned.stderr)))
    result = succeeded(cohort.release("--cohort", "NAME", "--dry-run", budget=BUDGET))
    assert "opens one of" not in result.stderr
    with Ledger(cohort.ledger, create=False) as ledger:
        (balance,) = ledger.balances()
    assert (balance.account.cohort, balance.budget.epsilon) == ("NAME", 7.5)


def test_a_plan_without_bounds_prints_the_table_to_fill_in(cohort):
    inputs = ("--bfile", cohort.folder / "cohort", "--pheno", cohort.folder / "pheno.tsv")
    header = (cohort.folder / "pheno.tsv").read_text().splitlines()[0].split("\t")
    done = succeeded(command(plan, *inputs, *BUDGET, "--out", cohort.out))
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert rows[0] == ["name", "lower", "upper", "mean", "sd"]
    assert [row[0] for row in rows[1:]] == header[2:]
    assert "give the table as --pheno-bounds" in done.stderr
    bounds = cohort.folder / "template.tsv"
    bounds.write_text(done.stdout)
    words = ("--out", cohort.out, "--pheno-bounds", bounds)
    refused(command(plan, *inputs, *BUDGET, *words), 3, "template.tsv")
    some = succeeded(command(plan, *inputs, "--pheno-name", header[2], "--out", cohort.out))
    assert [line.split("\t")[0] for line in some.stdout.splitlines()[1:]] == [header[2]]
