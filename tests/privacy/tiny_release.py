"""A paid release of a few numbers, for tests of faults and of lost ledgers."""

from __future__ import annotations

import numpy as np
from whole_matrices import zero_statistics

from primo_scale.ledger.ledger import Ledger
from primo_scale.ledger.spending import Account, PayingCohort
from primo_scale.outcomes.moments import RawMoments
from primo_scale.privacy.mechanism import Promise, PublicBounds, Recipe
from primo_scale.privacy.noise_store import NoiseStore
from primo_scale.privacy.paid_statistics import pay_and_draw
from primo_scale.privacy.phenotype_moments import pay_for_moments
from primo_scale.privacy.scales import calibrate
from primo_scale.storage.block_matrices import BlockLayout

LAYOUT = BlockLayout((0, 3), n_fixed=1, n_phenotypes=2)
BOUNDS = PublicBounds(100, None, 1000, 2000, LAYOUT.sizes, 1000, LAYOUT.n_phenotypes)
MECHANISM = calibrate(BOUNDS, Promise(1.0, 1e-6), Recipe(), split=1.3)
PAYING_COHORT = PayingCohort(Account("cohort"), "people")


def raw_statistics(path):
    return zero_statistics(path, LAYOUT)


def noise_store(folder):
    return NoiseStore(folder / "work" / "private_statistics")


def pay(folder, raw):
    """Return the private statistics and the charge."""
    with Ledger(folder / "ledger.sqlite") as ledger:
        paid = pay_and_draw(
            raw,
            MECHANISM,
            noise_store(folder),
            ledger=ledger,
            paying_cohort=PAYING_COHORT,
            on_block=lambda *_: None,
        )
    return paid.private.matrices, paid.receipt.charge.id


def pay_moments(folder, raw):
    with Ledger(folder / "ledger.sqlite") as ledger:
        moments, receipt = pay_for_moments(
            RawMoments(np.zeros((3, 2), dtype=np.int64)), Promise(1.0, 1e-6), noise_store(folder),
            ledger=ledger, paying_cohort=PAYING_COHORT,
        )  # fmt: skip
    return moments, receipt.charge.id


def key_left(folder):
    """Return the charge and the key that a fault left in the work directory, or None."""
    left = [p for end in ("key", "unused") for p in noise_store(folder).directory.glob(f"*.{end}")]
    assert len(left) < 2
    return (left[0].stem, left[0].read_bytes()) if left else None


def charges_of(folder):
    with Ledger(folder / "ledger.sqlite", create=False) as ledger:
        assert ledger.verify() == []
        return [charge for balance in ledger.balances() for charge in balance.charges]
