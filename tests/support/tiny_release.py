"""A paid release of a few numbers, for tests of payments, faults and lost ledgers."""

import numpy as np

from primo_scale.ledger.accounts import Account
from primo_scale.ledger.ledger import Ledger
from primo_scale.outcomes.store import RawAdjustment
from primo_scale.privacy.mechanism import Promise, PublicBounds, Recipe, calibrate, release_cost
from primo_scale.privacy.payment import (
    NoiseStore,
    Payer,
    draw_statistics,
    pay_for_adjustment,
    record_statistics,
)
from primo_scale.privacy.shares import SHARES
from primo_scale.storage.block_matrices import BlockLayout

LAYOUT = BlockLayout((0, 3), n_fixed=0, n_phenotypes=2)
ACCOUNT = Account("cohort")
SUBSAMPLE = Recipe(subsample=100)
NOBODY = RawAdjustment(np.zeros((5, 3, 3), dtype=np.int64))


def mechanism(epsilon=1.0, *, layout=LAYOUT, recipe=None, norms=None):
    """Calibrate a release of 1,000 people; `norms` are the bounds of the blocks."""
    sizes, n_phenotypes = layout.sizes, layout.n_phenotypes
    bounds = PublicBounds(10_000, norms, 2_000_000, sizes, 1000, n_phenotypes)
    promise = Promise(epsilon, 1e-6, share=1 - SHARES.adjustment)
    return calibrate(bounds, promise, recipe or Recipe(), split=1.3)


MECHANISM = mechanism()


def noise_store(folder):
    return NoiseStore(folder / "work" / "private_statistics")


def pay(folder, raw, asked=MECHANISM, cohort="cohort", *, exact=NOBODY):
    promise = asked.promise
    account = Account(cohort, promise.unit, promise.adjacency)
    with Ledger(folder / "ledger.sqlite") as ledger:
        payer = Payer(ledger, noise_store(folder), account, "people")
        cost = release_cost(promise, asked.recipe.subsample)
        found, receipt = pay_for_adjustment(exact, 100, promise, cost, payer)
        charge = payer.charge(found.charge)
        private = draw_statistics(raw, asked, payer, charge, lambda *_: None)
        record_statistics(payer, private, charge)
    return private.matrices, receipt


def pay_adjustment(folder, raw=None, *, exact=NOBODY, epsilon=1.0, norm=100):
    """Return the noisy adjustment and the receipt; the raw statistics play no part."""
    promise = Promise(epsilon, 1e-6)
    with Ledger(folder / "ledger.sqlite") as ledger:
        payer = Payer(ledger, noise_store(folder), ACCOUNT, "people")
        return pay_for_adjustment(exact, norm, promise, release_cost(promise, None), payer)


def open_budget(folder, epsilon, account=ACCOUNT):
    with Ledger(folder / "ledger.sqlite") as ledger:
        ledger.set_budget(account, epsilon=epsilon, delta=1e-6)


def key_left(folder):
    left = [p for end in ("key", "unused") for p in noise_store(folder).directory.glob(f"*.{end}")]
    assert len(left) < 2
    return (left[0].stem, left[0].read_bytes()) if left else None


def charges_of(folder):
    with Ledger(folder / "ledger.sqlite", create=False) as ledger:
        assert ledger.verify() == []
        return [charge for balance in ledger.balances() for charge in balance.charges]
