"""The stage that buys noisy phenotype means and sds, before anything is coded with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primo_scale.interruption import deferred
from primo_scale.run.log_records import stage
from primo_scale.run.payments import log_payment, paying_cohort_of
from primo_scale.run.work_directory import NOISE

if TYPE_CHECKING:
    from primo_scale.genotypes.store import GenotypeStore
    from primo_scale.run.design import PaidMoments
    from primo_scale.run.request import AccumulateRequest

FILE = "phenotype_moments.json"


def moments_stage(store: GenotypeStore, request: AccumulateRequest) -> PaidMoments | None:
    """Pay for the moments, or find them paid for; return None where they were not asked for.

    Parameters
    ----------
    store
        Genotype store, for its people.
    request
        Request that `check_before_work` has let pass. Its work directory keeps the noisy moments
        for a retry.

    Raises
    ------
    BudgetRefused
        The budget does not cover the moments and the rest of the release.
    InputError
        The work directory holds moments of another request.
    """
    tables, privacy, budget = request.outcomes, request.privacy, request.privacy.budget
    if not tables.pheno_moments or budget is None:
        return None
    from primo_scale.ledger.ledger import Ledger, default_ledger_path
    from primo_scale.outcomes.moments import sum_moments
    from primo_scale.privacy.mechanism import Promise
    from primo_scale.privacy.noise_store import NoiseStore
    from primo_scale.privacy.phenotype_moments import pay_for_moments
    from primo_scale.run.design import PaidMoments
    from primo_scale.run.design_choices import phenotype_bounds

    bounds = phenotype_bounds(tables)
    promise = Promise(budget.epsilon, budget.delta, privacy.unit, privacy.adjacency)
    noise_store = NoiseStore(request.work_dir / NOISE)
    with stage("phenotype moments"):
        raw = sum_moments(tables.pheno, store.samples, bounds)
        path = request.ledger or default_ledger_path()
        with Ledger(path, create=not noise_store.used_charges()) as ledger:
            payer = paying_cohort_of(ledger, store, request.cohort, privacy.unit, privacy.adjacency)
            with deferred():
                bought, receipt = pay_for_moments(
                    raw, promise, noise_store, ledger=ledger, paying_cohort=payer
                )
                log_payment("phenotype means and sds", receipt, ledger.balance(payer.account))
    return PaidMoments(bought, budget)
