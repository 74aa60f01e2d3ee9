"""The stage that buys noisy phenotype means and sds, before anything is coded with them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from primo_scale.interruption import deferred
from primo_scale.run.log_records import stage
from primo_scale.run.payments import log_payment
from primo_scale.run.work_directory import NOISE

if TYPE_CHECKING:
    from primo_scale.genotypes.store import GenotypeStore
    from primo_scale.run.choices import RunChoices
    from primo_scale.run.design import PaidMoments

FILE = "phenotype_moments.json"


def moments_stage(store: GenotypeStore, asked: RunChoices, work_dir: Path) -> PaidMoments | None:
    """Pay for the moments, or find them paid for; return None where they were not asked for.

    Parameters
    ----------
    store
        Genotype store, for its people.
    asked
        Choices of the command line, which `check_before_work` has let pass.
    work_dir
        Directory where the noisy moments are kept for a retry.

    Raises
    ------
    BudgetRefused
        The budget does not cover the moments and the rest of the release.
    InputError
        The work directory holds moments of another request.
    """
    outcomes, model = asked.outcomes, asked.model
    if not outcomes.pay_moments or model.budget is None:
        return None
    from primo_scale.ledger.cohort_account import find_paying_cohort
    from primo_scale.ledger.ledger import Ledger, default_ledger_path
    from primo_scale.outcomes.moments import sum_moments
    from primo_scale.privacy.mechanism import Promise
    from primo_scale.privacy.noise_store import NoiseStore
    from primo_scale.privacy.phenotype_moments import pay_for_moments
    from primo_scale.run.choices import phenotype_bounds
    from primo_scale.run.design import PaidMoments

    bounds = phenotype_bounds(outcomes)
    promise = Promise(model.budget.epsilon, model.budget.delta, model.privacy, model.adjacency)
    noise_store = NoiseStore(work_dir / NOISE)
    with stage("phenotype moments"):
        raw = sum_moments(outcomes.phenotypes.values, store.samples, bounds)
        path = asked.ledger or default_ledger_path()
        with Ledger(path, create=not noise_store.used_charges()) as ledger:
            paying_cohort = find_paying_cohort(
                ledger,
                store.cohort_digest,
                store.samples.individual,
                asked.cohort,
                unit=model.privacy,
                adjacency=model.adjacency,
            )
            with deferred():
                bought, receipt = pay_for_moments(
                    raw, promise, noise_store, ledger=ledger, paying_cohort=paying_cohort
                )
                log_payment(
                    "phenotype means and sds", receipt, ledger.balance(paying_cohort.account)
                )
    return PaidMoments(bought, model.budget)
