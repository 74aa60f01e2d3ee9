"""The stage that buys noisy phenotype means and sds, before anything is coded with them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.command_line import interruptions_deferred, stage
from pipelines.payments import log_payment
from pipelines.work_places import NOISE

if TYPE_CHECKING:
    from pipelines.choices import OutcomeChoices
    from pipelines.design import PaidMoments
    from pipelines.design_choices import ModelChoices
    from primo_scale.genotypes.store import GenotypeStore

FILE = "phenotype_moments.json"


def will_pay_moments(outcomes: OutcomeChoices, model: ModelChoices, work_dir: Path) -> bool:
    """Whether `moments_stage` is going to spend."""
    asked = outcomes.pay_moments and model.budget is not None
    return asked and not (work_dir / FILE).exists()


def moments_stage(
    store: GenotypeStore,
    outcomes: OutcomeChoices,
    model: ModelChoices,
    options: dict[str, Any],
    work_dir: Path,
) -> PaidMoments | None:
    """Pay for the moments, or find them paid for; None where they were not asked for.

    Parameters
    ----------
    store
        For the people.
    outcomes, model
        Choices of the command line.
    options
        ``ledger`` and ``cohort`` of the command line.
    work_dir
        Where the noisy moments are kept for a retry.

    Raises
    ------
    BudgetRefused
        The budget does not cover the moments and the rest of the release.
    InputError
        The work directory holds moments of another request.
    """
    if not outcomes.pay_moments or model.budget is None:
        return None
    from pipelines.choices import outcome_coding, phenotype_bounds
    from pipelines.design import PaidMoments
    from pipelines.design_choices import make_design, match_frequencies
    from primo_scale.outcomes.moments import sum_moments
    from primo_scale.privacy.ledger import Ledger, default_ledger_path
    from primo_scale.privacy.mechanism import Promise
    from primo_scale.privacy.noise_at_hand import NoiseAtHand
    from primo_scale.privacy.payer import payer_of
    from primo_scale.privacy.phenotype_moments import pay_for_moments

    # What the rest of the run would refuse is refused before anything is paid.
    make_design(
        store,
        model,
        matched=match_frequencies(model, store.variants),
        outcomes=outcome_coding(outcomes, model, None),
        moments=None,
    )
    bounds = phenotype_bounds(outcomes)
    promise = Promise(model.budget.epsilon, model.budget.delta, model.privacy, model.adjacency)
    at_hand = NoiseAtHand(work_dir / NOISE)
    with stage("phenotype moments"):
        raw = sum_moments(outcomes.phenotypes.values, store.samples, bounds)
        path = options["ledger"] or default_ledger_path()
        with Ledger(path, create=not at_hand.used()) as ledger:
            payer = payer_of(
                ledger,
                store.cohort_digest,
                store.samples.individual,
                options["cohort"],
                unit=model.privacy,
                adjacency=model.adjacency,
            )
            with interruptions_deferred():
                bought, receipt = pay_for_moments(raw, promise, at_hand, ledger=ledger, payer=payer)
                log_payment("phenotype means and sds", receipt, ledger.balance(payer.account))
    return PaidMoments(bought, model.budget)
