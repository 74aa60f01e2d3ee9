"""What the custodian is told of a payment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.command_line import LOGGER

if TYPE_CHECKING:
    from primo_scale.privacy.receipt import Receipt
    from primo_scale.privacy.spending import Balance


def log_payment(what: str, receipt: Receipt, balance: Balance) -> None:
    """Say what was paid, and that a budget was opened if one was.

    To be called before interruptions are let in again, which would leave the payment unsaid.

    Parameters
    ----------
    what
        Was bought, in words.
    receipt
        Of it.
    balance
        Of the account that paid.
    """
    LOGGER.info("%s: %s", what, receipt.history)
    if receipt.opened_budget:
        LOGGER.info(
            "the cohort %s had no budget: it now has epsilon %g at delta %g, for this release and "
            "no other; for more: python -m pipelines.ledger set-budget",
            balance.account.short_name, balance.budget.epsilon, balance.budget.delta,
        )  # fmt: skip
