"""The steps of paying for a release, announced as they are passed.

What a crash can cost is argued step by step (docs/privacy.md, "One charge, one noise, one
release"). So every step raises an audit event of the standard library: an auditor, or a test,
installs a hook with `sys.addaudithook`, and watches the order, or kills the process at any step
and looks at what is left. Without a hook an event costs nothing, and no hook can skip a step.
"""

from __future__ import annotations

import sys

from primo_scale.interruption import check_before_charge

AUDIT_EVENT = "primo_scale.step"
# In the order in which a release passes them. "before" a record of the ledger means: written, not
# yet committed; without "before": durable.
STEPS = (
    "key stored",
    "before reserve",
    "reserved",
    "draw begins",
    "block written",
    "statistics stored",
    "before drawn",
    "drawn",
    "key removed",
    "release staged",
    "release published",
    "before published",
    "published",
)
# Before them, where phenotype means and standard deviations are paid for.
MOMENTS_STEPS = (
    "key stored",
    "before reserve",
    "reserved",
    "draw begins",
    "moments stored",
    "before drawn",
    "drawn",
    "key removed",
)
# When a ledger of format version 1 is opened.
UPGRADE_STEPS = ("before upgrade", "upgraded")


def step(label: str) -> None:
    """Announce that a step is passed, as the audit event ``primo_scale.step`` with its label.

    Raises
    ------
    InterruptedRun
        A signal asked the command to stop and the step is the last before a charge is paid.
    """
    sys.audit(AUDIT_EVENT, label)
    if label == "before reserve":
        check_before_charge()
