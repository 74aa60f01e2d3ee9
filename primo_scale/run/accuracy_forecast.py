"""Accuracy of a release, forecast from public facts before anything is summed or spent."""

from __future__ import annotations

from primo_scale.errors import UsageError
from primo_scale.genotypes.store import open_genotype_store
from primo_scale.genotypes.tables import VariantTable
from primo_scale.outcomes.ancestry import COMPONENTS_REMEDY, NO_COMPONENTS, has_components
from primo_scale.privacy.accuracy import (
    LEAST_USEFUL_R2,
    Forecast,
    expected_r2_sum,
    forecast,
    spectrum_shape,
)
from primo_scale.privacy.mechanism import Mechanism
from primo_scale.privacy.planning import PRIOR_HERITABILITY
from primo_scale.run.design import Budget, Design
from primo_scale.run.method_choice import Chosen, choose, recipe_of
from primo_scale.run.payments import announce_opening
from primo_scale.run.request import FinalizeRequest
from primo_scale.run.run_log import LOGGER
from primo_scale.storage.locations import parse_location


def check_summed(design: Design, request: FinalizeRequest) -> None:
    """Check a release of finished statistics: its accuracy, and whether it opens a budget.

    Raises
    ------
    UsageError
        The release would be noise, and `accept_noise` is False.
    """
    store, budget = open_genotype_store(parse_location(design.genotype_store)), request.budget
    chosen = choose(design, None if budget is None else design.promise(budget), request.fit)
    check_accuracy(design, store.variants, chosen, budget, accept_noise=request.accept_noise)
    if budget is not None:
        announce_opening(store, design, budget, ledger=request.ledger, cohort=request.cohort)


def check_accuracy(
    design: Design,
    variants: VariantTable,
    chosen: Chosen | None,
    budget: Budget | None,
    *,
    accept_noise: bool,
) -> Forecast | None:
    """Log and return the expected accuracy, and refuse a release that would be noise.

    There is no forecast without a method and a budget: the release is planned later, or has no
    noise. `variants` are in the order of the design.

    Raises
    ------
    UsageError
        The release would be noise, and `accept_noise` is False.
    """
    if not has_components(covariate.name for covariate in design.outcomes.covariates):
        LOGGER.warning("%s %s", NO_COMPONENTS, COMPONENTS_REMEDY)
    if budget is None or chosen is None or not design.clipped:
        return None
    expected = forecast_release(
        design, variants, design.mechanism(budget, recipe_of(design, chosen))
    )
    LOGGER.info(
        "forecast: effective sample size about %g of %d; scores are expected to explain %.2g "
        "of the variance of a trait of heritability %g in other people, and %.2g without noise "
        "(from public sizes; too high rather than too low)",
        expected.stated_size, design.public_n, expected.r_squared, PRIOR_HERITABILITY,
        expected.without_noise,
    )  # fmt: skip
    if not expected.is_noise:
        return expected
    if not accept_noise:
        raise UsageError(
            "the weights of this release would be noise: they are expected to explain too little "
            "of the variance",
            where="--epsilon",
            value=f"R^2 {expected.r_squared:.2g}",
            limit=f"at least {LEAST_USEFUL_R2:g}",
            remedy="Release fewer phenotypes or variants, or of more people, or with a larger "
            "--epsilon; or give --accept-noise to spend the budget on it all the same",
        )
    LOGGER.warning("the weights of this release will be noise, as --accept-noise accepts")
    return expected


def forecast_release(design: Design, variants: VariantTable, mechanism: Mechanism) -> Forecast:
    """Return the accuracy expected of a private release with the noise of `mechanism`."""
    total = expected_r2_sum(variants.chromosome, variants.position, design.boundaries)
    return forecast(
        design.sizes,
        spectrum_shape(total, design.layout.n_variants),
        clip=design.clip,
        cross_sigma=mechanism.scales.phenotype_cross,
    )
