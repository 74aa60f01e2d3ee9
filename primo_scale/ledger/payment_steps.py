"""Steps of paying for a release, each announced by an audit event of the standard library.

docs/privacy.md ("One charge, one noise, one release") argues for every step what a crash after it
can cost. An auditor or a test installs a hook with `sys.addaudithook` to observe the order of the
steps, or to kill the process at a step and examine what remains. An event without a hook costs
nothing, and a hook cannot skip a step.
"""

from __future__ import annotations

import sys
from enum import StrEnum

from primo_scale.interruption import check_before_charge

AUDIT_EVENT = "primo_scale.step"


class PaymentStep(StrEnum):
    """Step of a payment.

    A record of the ledger is "written" inside a transaction and durable once it is "committed".
    """

    KEY_STORED = "key stored"
    RESERVATION_WRITTEN = "reservation written"
    RESERVATION_COMMITTED = "reservation committed"
    DRAW_STARTED = "draw started"
    ADJUSTMENT_STORED = "adjustment stored"
    BLOCK_WRITTEN = "block written"
    STATISTICS_STORED = "statistics stored"
    SECOND_ROUND_STORED = "second round stored"
    HOLD_OUT_STORED = "hold-out stored"
    DRAW_RECORD_WRITTEN = "draw record written"
    DRAW_RECORD_COMMITTED = "draw record committed"
    KEY_REMOVED = "key removed"
    RELEASE_STAGED = "release staged"
    RELEASE_PUBLISHED = "release published"
    PUBLICATION_RECORD_WRITTEN = "publication record written"
    PUBLICATION_RECORD_COMMITTED = "publication record committed"


def announce_step(step: PaymentStep) -> None:
    """Raise the audit event ``primo_scale.step``, whose argument is the completed step as text.

    If a signal asked the command to stop, and the reservation is written but not yet committed, an
    InterruptedRun is raised.
    """
    sys.audit(AUDIT_EVENT, step.value)
    if step is PaymentStep.RESERVATION_WRITTEN:
        check_before_charge()
