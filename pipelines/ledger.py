"""``python -m pipelines.ledger``: see, check and set privacy budgets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipelines.command_line import (
    CONTEXT,
    EXISTING_FILE,
    ContractGroup,
    debug_option,
    explain_errors,
)

if TYPE_CHECKING:
    from primo_scale.privacy.ledger import Ledger
    from primo_scale.privacy.spending import Account, Balance

_LEDGER_OPTION = click.option(
    "--ledger",
    "path",
    type=EXISTING_FILE,
    help="The ledger file [default: primo_scale/ledger.sqlite under the XDG state directory].",
)
_COHORT_OPTION = click.option(
    "--cohort", help="A cohort's name, or the beginning of its identifier, as `show` prints it."
)


@click.group(cls=ContractGroup, context_settings=CONTEXT)
def main() -> None:
    """Show, verify and set the privacy budgets of cohorts."""


@main.command()
@_LEDGER_OPTION
@_COHORT_OPTION
@debug_option
@explain_errors
def show(path: Path | None, cohort: str | None) -> None:
    """Print what each cohort may spend, has spent and has left, and every charge."""
    with _open(path) as ledger:
        balances = _matching(ledger, cohort) if cohort else ledger.balances()
        click.echo(f"{ledger.path}, head {ledger.head()}")
        if not balances:
            click.echo("no cohort has a budget yet")
        for balance in balances:
            _print_balance(balance)


@main.command()
@_LEDGER_OPTION
@debug_option
@explain_errors
def verify(path: Path | None) -> None:
    """Recompute the whole ledger; exit 1 and say what is wrong if anything is."""
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
@click.option("--delta", type=float, help="Needed for a new cohort; an existing one keeps its own.")
@debug_option
@explain_errors
def set_budget(path: Path | None, cohort: str | None, epsilon: float, delta: float | None) -> None:
    """Set a cohort's total budget; --cohort may be left out when the ledger holds one cohort.

    A name that matches no cohort opens a budget for a new one, to be used with the same --cohort.
    """
    from primo_scale.privacy.ledger import Ledger

    with Ledger(_path(path)) as ledger:
        account = _account_to_set(ledger, cohort)
        _print_balance(ledger.set_budget(account, epsilon=epsilon, delta=delta))


def _path(path: Path | None) -> Path:
    from primo_scale.privacy.ledger import default_ledger_path

    return path if path is not None else default_ledger_path()


def _open(path: Path | None) -> Ledger:
    from primo_scale.privacy.ledger import Ledger

    return Ledger(_path(path), create=False)


def _matching(ledger: Ledger, cohort: str) -> list[Balance]:
    """Balances of the one cohort that is named `cohort`, or whose identifier begins so."""
    from primo_scale.errors import UsageError

    balances = ledger.balances()
    found = [b for b in balances if b.account.is_abbreviated_by(cohort)]
    if len({balance.account.cohort for balance in found}) > 1:
        raise UsageError(
            "several cohorts begin so", where="--cohort", value=cohort, remedy="Give more letters"
        )
    if not found:
        known = ", ".join(balance.account.short_name for balance in balances) or "none"
        raise UsageError("no such cohort", where="--cohort", value=cohort, limit=f"known: {known}")
    return found


def _account_to_set(ledger: Ledger, cohort: str | None) -> Account:
    from primo_scale.errors import UsageError
    from primo_scale.privacy.spending import Account

    balances = ledger.balances()
    if cohort is not None and not any(b.account.is_abbreviated_by(cohort) for b in balances):
        click.echo(f"new cohort: {cohort}")
        return Account(cohort)
    found = balances if cohort is None else _matching(ledger, cohort)
    if len(found) != 1:
        raise UsageError(
            "name the cohort: the ledger does not hold exactly one",
            where="--cohort",
            value=f"{len(found)} accounts",
            remedy="python -m pipelines.ledger show lists them",
        )
    return found[0].account


def _print_balance(balance: Balance) -> None:
    account, budget = balance.account, balance.budget
    click.echo(f"cohort {account.short_name} ({account.unit} privacy, {account.adjacency})")
    click.echo(f"  budget  epsilon {budget.epsilon:g} at delta {budget.delta:g}")
    click.echo(f"  spent   epsilon {balance.epsilon_spent:.4g} in {len(balance.charges)} charges")
    click.echo(f"  left    epsilon {balance.epsilon_left:g}")
    for charge in balance.charges:
        request = charge.request
        click.echo(
            f"  charge {charge.id}  {charge.reserved_at}  {charge.state:9}  "
            f"epsilon {request.epsilon:g}  mu^2 {charge.mu_squared:.6g}"
        )


if __name__ == "__main__":
    main()
