"""``primo-scale ledger``: show, verify and set privacy budgets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from primo_scale.cli.command_line import ContractGroup
from primo_scale.cli.option_types import file_option
from primo_scale.cli.options import neighbour_options
from primo_scale.errors import UsageError
from primo_scale.humanize import spent_in_words

if TYPE_CHECKING:
    from primo_scale.ledger.ledger import Ledger
    from primo_scale.ledger.spending import Balance

_LEDGER_OPTION = file_option(
    "--ledger",
    "path",
    help="The ledger file [default: primo_scale/ledger.sqlite under the XDG state directory].",
)
_COHORT_OPTION = click.option(
    "--cohort", help="A cohort's name, or 8 or more first digits of its identifier (see `show`)."
)


@click.group(cls=ContractGroup)
def main() -> None:
    """Show, verify and set the privacy budgets of cohorts."""


@main.command()
@_LEDGER_OPTION
@_COHORT_OPTION
def show(path: Path | None, cohort: str | None) -> None:
    """Print what each cohort may spend, has spent and has left, and every charge.

    Others verify the signatures of releases with the public key: publish it.
    """
    with _open(path) as ledger:
        balances = _matching(ledger, cohort) if cohort else ledger.balances()
        click.echo(f"{ledger.path}, head {ledger.head()}")
        click.echo(f"public key {ledger.public_key}")
        if not balances:
            click.echo("no cohort has a budget yet")
        for balance in balances:
            _print_balance(balance)


@main.command()
@_LEDGER_OPTION
def verify(path: Path | None) -> None:
    """Recompute the whole ledger; print every problem, and exit 1 if there is one."""
    with _open(path) as ledger:
        problems = ledger.verify()
        for problem in problems:
            click.echo(f"{ledger.path}: {problem}", err=True)
        if problems:
            sys.exit(1)
        click.echo(f"{ledger.path}: verified, head {ledger.head()}")


@main.command("set-budget")
@_LEDGER_OPTION
@_COHORT_OPTION
@click.option("--epsilon", type=float, required=True, help="Total epsilon the cohort may spend.")
@click.option("--delta", type=float, help="Needed for a new budget; an existing one keeps its own.")
@neighbour_options()
def set_budget(
    path: Path | None,
    cohort: str | None,
    epsilon: float,
    delta: float | None,
    unit: str,
    adjacency: str,
) -> None:
    """Set a cohort's total budget; --cohort may be left out when the ledger holds one cohort.

    A name that matches no cohort opens a budget for a new one, to be used with the same --cohort.
    Each --privacy and --adjacency has a budget of its own. Budgets do not add up: a guarantee
    for phenotypes alone is none for genotypes.
    """
    from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit

    with _open(path, create=True) as ledger:
        name = cohort if cohort is not None else _only_cohort(ledger)
        account = ledger.account_named(name, unit=PrivacyUnit(unit), adjacency=Adjacency(adjacency))
        known = {balance.account.cohort for balance in ledger.balances()}
        balance = ledger.set_budget(account, epsilon=epsilon, delta=delta)
        if account.cohort not in known:
            click.echo(f"new cohort: {account.cohort}")
        _print_balance(balance)


def _open(path: Path | None, *, create: bool = False) -> Ledger:
    from primo_scale.ledger.ledger import Ledger, default_ledger_path

    return Ledger(path or default_ledger_path(), create=create)


def _matching(ledger: Ledger, cohort: str) -> list[Balance]:
    """Return the balances of the cohort with this name or abbreviated identifier."""
    balances = ledger.balances()
    found = [b for b in balances if b.account.is_abbreviated_by(cohort)]
    if len({balance.account.cohort for balance in found}) > 1:
        raise UsageError(
            "several cohorts begin with this",
            where="--cohort",
            value=cohort,
            remedy="Give more letters",
        )
    if not found:
        known = ", ".join(balance.account.short_name for balance in balances) or "none"
        raise UsageError("no such cohort", where="--cohort", value=cohort, limit=f"known: {known}")
    return found


def _only_cohort(ledger: Ledger) -> str:
    cohorts = {balance.account.cohort for balance in ledger.balances()}
    if len(cohorts) != 1:
        raise UsageError(
            "name the cohort: the ledger does not hold exactly one",
            where="--cohort",
            value=f"{len(cohorts)} cohorts",
            remedy="primo-scale ledger show lists them",
        )
    return cohorts.pop()


def _print_balance(balance: Balance) -> None:
    budget = balance.budget
    click.echo(f"cohort {balance.account.description}")
    spent = spent_in_words(balance.epsilon_spent, budget.epsilon)
    click.echo(f"  budget  epsilon {spent_in_words(budget.epsilon)} at delta {budget.delta:g}")
    click.echo(f"  spent   epsilon {spent} in {len(balance.charges)} charges")
    left = balance.epsilon_left
    remark = " (mu^2 adds up, not epsilon)" if balance.charges and left else ""
    click.echo(f"  left    epsilon {left:g}{remark}")
    for charge in balance.charges:
        cost = charge.cost
        subsampled = f" and (epsilon {cost.epsilon:g}, delta {cost.delta:g})" if cost.delta else ""
        click.echo(
            f"  charge {charge.id}  {charge.reserved_at}  {charge.state:9}  "
            f"epsilon {charge.request.epsilon:g}  mu^2 {cost.mu_squared:.6g}{subsampled}"
        )
