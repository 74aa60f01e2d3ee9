"""Method of a release and the accuracy expected of it, from public facts alone."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from threadpoolctl import threadpool_limits

from primo_scale.errors import UsageError
from primo_scale.gaussian.calibration import check_draws
from primo_scale.genotypes.ld_panel import LdPanel
from primo_scale.genotypes.store import GenotypeStore, open_genotype_store
from primo_scale.genotypes.tables import VariantTable
from primo_scale.humanize import examples
from primo_scale.methods.catalogue import (
    AS_GIVEN,
    BY_COMPONENTS,
    BY_SUBSAMPLE,
    GAMMA_METHOD,
    METHODS,
    Method,
    choose_method,
    estimator_for,
    method_named,
)
from primo_scale.methods.estimators import ESTIMATORS, Estimator
from primo_scale.methods.gram_noise import BlockNoise, share_with_noisy_gram
from primo_scale.methods.shrinkage import Float64, noise_norm
from primo_scale.outcomes.ancestry import COMPONENTS_REMEDY, NO_COMPONENTS, has_components
from primo_scale.privacy.accuracy import (
    LEAST_USEFUL_R2,
    SPARSE_SHARE,
    Forecast,
    Trait,
    expected_r2,
    expected_r2_sum,
    forecast_of,
    seen_directions,
    sparse_r2,
    spectrum_shape,
)
from primo_scale.privacy.mechanism import FIRST_ROUND_SHARE, Mechanism
from primo_scale.privacy.planning import PRIOR_HERITABILITY, clipped_phenotype
from primo_scale.publication.wording import FEW_VARIANTS, few_variants_in_words
from primo_scale.run.design import Budget, Design
from primo_scale.run.panel_choices import LARGEST_BLOCK, component_shares, errors_of_gram
from primo_scale.run.payments import announce_opening
from primo_scale.run.prior_scores import PriorScores
from primo_scale.run.request import FinalizeRequest, Fit
from primo_scale.run.run_log import LOGGER
from primo_scale.storage.locations import parse_location

_NOISELESS_METHOD = "reuse-cov-gauss"
_COMPONENTS_METHOD = "reuse-cov-gauss"
_COMPONENTS_ESTIMATOR = "point-normal"
_TRAIT = Trait()
_BLOCK_GROUPS = 4
_LARGEST_EPSILON = 10.0  # that is not warned of


@dataclass(frozen=True)
class ChosenMethod:
    """Method of the catalogue, its rule of shrinkage, and the reason for them in words."""

    method: Method
    reason: str
    estimator: Estimator
    priors: PriorScores | None = field(default=None, repr=False)  # public scores to build on
    ridge: float | None = None  # penalty of ``--ridge``, in units of the genotype coding


@dataclass(frozen=True)
class PlannedRelease:
    """Release to be made of finished statistics."""

    design: Design
    request: FinalizeRequest
    store: GenotypeStore  # of the people in the statistics
    chosen: ChosenMethod
    panel: LdPanel | None = None  # where its people have populations


def choose(design: Design, budget: Budget | None, fit: Fit) -> ChosenMethod:
    """Return the method and its rule of shrinkage; without a budget, statistics have no noise."""
    if budget is None:
        if fit.method != "auto":
            raise UsageError("without noise all methods are one", where="--method")
        if fit.shrinkage is not None:
            raise UsageError("without noise there is nothing to shrink", where="--shrinkage")
        if fit.gamma is not None:
            raise UsageError("without noise there is no budget to share", where="--gamma")
        if fit.ridge is not None and design.components is not None:
            raise UsageError("LD components are solved without a penalty", where="--ridge")
        rule = fit.estimator or _without_noise(design)
        return ChosenMethod(METHODS[_NOISELESS_METHOD], "no noise was added", rule)
    promise = design.promise(budget)
    if fit.method != "auto":
        method, reason = method_named(fit.method, promise.privacy), AS_GIVEN
    elif design.subsample is not None:
        method, reason = method_named("sub-samp-reuse-cov", promise.privacy), BY_SUBSAMPLE
    elif design.components is not None:
        method, reason = METHODS[_COMPONENTS_METHOD], BY_COMPONENTS
    else:
        method, reason = choose_method(promise, design.sizes)
    if fit.gamma is not None:
        if method.name != GAMMA_METHOD:
            raise UsageError(
                f"{method.name} has no share of the budget to set",
                where="--gamma",
                value=fit.gamma,
                remedy=f"Leave it out, or give --method {GAMMA_METHOD}",
            )
        method = replace(method, eigenvalue_share=fit.gamma)
    estimator = _estimator(design, method, fit)
    if fit.prior_weights and not method.takes_public_scores:
        raise UsageError(
            f"{method.name} does not build on public scores",
            where="--prior-weights",
            remedy="Leave them out, or give --method reuse-cov-gauss",
        )
    return ChosenMethod(method, reason, estimator, ridge=fit.ridge)


def _without_noise(design: Design) -> Estimator:
    """Return the most accurate estimator without noise that the sizes of a design allow."""
    sampling = ESTIMATORS[_COMPONENTS_ESTIMATOR]
    if design.components is None and not (
        max(design.block_sizes) <= LARGEST_BLOCK
        and sampling.samples_effects_of(design.n_variants, design.layout.n_phenotypes)
    ):
        return ESTIMATORS["effect-variances"]
    return sampling


def _estimator(design: Design, method: Method, fit: Fit) -> Estimator:
    """Return the rule of shrinkage, by default the most accurate one of LD components."""
    estimator = estimator_for(method, fit.estimator)
    if design.components is None:
        if estimator.fits_effects:
            raise UsageError(
                "estimates effects from LD components, which this release does not have",
                where="--shrinkage",
                value=estimator,
                remedy="Leave it out, or give --ld-panel where the statistics are made",
            )
        return estimator
    if fit.estimator is None and method.name == _COMPONENTS_METHOD:
        estimator = ESTIMATORS[_COMPONENTS_ESTIMATOR]
    known_noise = estimator.fits_effects or estimator is ESTIMATORS["known-noise"]
    if method.name != _COMPONENTS_METHOD or not known_noise:
        raise UsageError(
            f"LD components are solved by {_COMPONENTS_METHOD} with known-noise, "
            "genetic-factors or point-normal weights",
            where="--method, --shrinkage, --ridge",
            value=f"{method.name}, {estimator}",
            remedy="Leave it out, or give --no-ld-components where the statistics are made",
        )
    if design.rounds == 2 and estimator is not ESTIMATORS[_COMPONENTS_ESTIMATOR]:
        raise UsageError(
            "statistics of two rounds are solved with point-normal weights",
            where="--shrinkage",
            value=estimator,
            remedy="Leave it out, or give --rounds 1 where the statistics are made",
        )
    return estimator


def mechanism_of(design: Design, budget: Budget, chosen: ChosenMethod) -> Mechanism:
    """Return the least noise on the statistics that the method needs.

    More noisy values than the noise is proved for raise a UsageError.
    """
    layout = design.layout
    recipe = chosen.method.recipe(layout.n_phenotypes, design.subsample)
    gram = recipe.gram_copies * sum(size * (size + 1) // 2 for size in layout.sizes)
    # A phenotype has fewer than 64 other numbers: counts, and those of people held out.
    adjusted = (2 + len(design.outcomes.covariates)) ** 2 * design.clipped
    other = layout.n_variants + layout.n_outcomes + 64 + adjusted
    check_draws(gram + other * layout.n_outcomes)
    return design.mechanism(budget, recipe)


def check_summed(design: Design, request: FinalizeRequest) -> None:
    """Check a release of finished statistics: its accuracy, and whether it opens a budget."""
    store, budget = open_genotype_store(parse_location(design.genotype_store)), request.budget
    chosen = choose(design, budget, request)
    check_accuracy(design, store, chosen, budget, accept_noise=request.accept_noise)
    if budget is not None:
        announce_opening(store, design, budget, request)


def trait_of(store: GenotypeStore) -> Trait:
    """Return the trait of the prior heritability, of which the variants explain their share."""
    return Trait(heritability=PRIOR_HERITABILITY * store.heritability_share)


def check_accuracy(
    design: Design,
    store: GenotypeStore,
    chosen: ChosenMethod | None,
    budget: Budget | None,
    *,
    accept_noise: bool,
) -> Forecast | None:
    """Log and return the expected accuracy; refuse a release of noise, unless `accept_noise`."""
    _warn_of_disclosure(design, budget)
    if not has_components(covariate.name for covariate in design.outcomes.covariates):
        LOGGER.warning("%s %s", NO_COMPONENTS, COMPONENTS_REMEDY)
    # The release is planned later, or has no noise.
    if budget is None or chosen is None or not design.clipped:
        return None
    trait, mechanism = trait_of(store), mechanism_of(design, budget, chosen)
    expected = forecast_release(design, store.variants, mechanism, trait)
    assumed = ""
    if store.heritability_share < 1:
        assumed = f", of which these variants are taken to have {trait.heritability:.2g},"
    LOGGER.info(
        "forecast: effective sample size about %g of %d; scores are expected to explain %.2g "
        "of the variance of a trait of heritability %g%s in other people, and %.2g without noise "
        "(from public sizes, for effects spread evenly over the variants)%s",
        expected.stated_size, design.public_n, expected.r_squared, PRIOR_HERITABILITY, assumed,
        expected.without_noise,
        "" if expected.sparse is None
        else f"; {expected.sparse:.2g} if {SPARSE_SHARE:.0%} of the variants have effects",
    )  # fmt: skip
    _note_limits(design, trait)
    if chosen.ridge is not None:
        _warn_of_ridge(design, mechanism, chosen.ridge)
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


def _warn_of_disclosure(design: Design, budget: Budget | None) -> None:
    """Warn of what protects little: a large epsilon, and scores of few variants."""
    if budget is not None and budget.epsilon > _LARGEST_EPSILON:
        LOGGER.warning(
            "--epsilon %g is above %g, and promises little: the odds of a statement about one "
            "person change by a factor of at most e^%g (docs/how-to/choose.md)",
            budget.epsilon, _LARGEST_EPSILON, budget.epsilon,
        )  # fmt: skip
    if design.n_variants <= FEW_VARIANTS:
        LOGGER.warning("%s", few_variants_in_words(design.n_variants))


def _warn_of_ridge(design: Design, mechanism: Mechanism, ridge: float) -> None:
    """Warn of a penalty below the noise norm of X'X, which no forecast counts."""
    norms = map(noise_norm, mechanism.scales.gram, design.layout.sizes)
    least = max(norms) / design.genotypes.unit**2
    if ridge < least:
        LOGGER.warning(
            "--ridge %g is below the noise on X'X, whose norm is up to %.3g in the same units: "
            "the noise can hide the weights, and the forecast does not count it. Leave --ridge out",
            ridge, least,
        )  # fmt: skip


def _note_limits(design: Design, trait: Trait) -> None:
    """Log what the forecast leaves out: genetic factors, and the codes of binary traits."""
    if design.genetic_factors is not None:
        LOGGER.info(
            "forecast: it takes phenotypes as unrelated; those that share %d genetic factors are "
            "explained better", design.genetic_factors,
        )  # fmt: skip
    of_codes = [
        f"{p.name} {trait.heritability * share:.2g} at prevalence {p.mean - p.lower:g}"
        for p, share in zip(design.outcomes.phenotypes, design.shares_of_liability, strict=True)
        if share < 1
    ]
    if of_codes:
        LOGGER.info(
            "forecast: scores explain less of binary traits, as heritability %.2g of the liability "
            "is less of the codes: %s", trait.heritability, examples(of_codes),
        )  # fmt: skip


def forecast_release(
    design: Design, variants: VariantTable, mechanism: Mechanism, trait: Trait = _TRAIT
) -> Forecast:
    """Return the accuracy expected of a private release with the noise of `mechanism`.

    Two rounds measure an even trait as well as one with the budget of both.
    """
    eigenvalues = public_eigenvalues(design, variants)
    squared = mechanism.scales.phenotype_cross**2
    if design.rounds == 2:
        squared *= FIRST_ROUND_SHARE
    sigma = np.sqrt(squared + errors_of_gram(design, mechanism, trait.heritability))
    shares = component_shares(design)
    explained = expected_r2(
        design.sizes,
        eigenvalues,
        clip=design.clip,
        cross_sigma=sigma,
        components=shares,
        trait=trait,
    )
    if design.components is None:
        with threadpool_limits(1, user_api="blas"):  # as in `methods.map_blocks`
            share = _share_with_noisy_gram(design, mechanism, trait, eigenvalues)
        explained = trait.public_r2 + share * (explained - trait.public_r2)
    even = forecast_of(explained, design.sizes.n_samples, eigenvalues, design.n_variants, trait)
    if trait.public_r2:
        return even
    seen = seen_directions(
        design.sizes, eigenvalues, clip=design.clip, cross_sigma=sigma, components=shares
    )
    sparse = sparse_r2(even, seen, design.n_variants, design.rounds, trait.heritability)
    return replace(even, sparse=sparse)


def public_eigenvalues(design: Design, variants: VariantTable) -> Float64:
    """Return eigenvalues of the genotypes' correlation matrix: the panel's, or expected ones."""
    if design.panel is not None:
        return design.panel.eigenvalues
    total = expected_r2_sum(variants.chromosome, variants.position, design.boundaries)
    return spectrum_shape(total, design.n_variants)


def _share_with_noisy_gram(
    design: Design, mechanism: Mechanism, trait: Trait, eigenvalues: Float64
) -> float:
    """Return the mean share of `share_with_noisy_gram` over groups of LD blocks of similar size."""
    gram, sizes = mechanism.scales.gram, design.sizes
    people, unit = design.public_n, sizes.phenotype_scale**2
    slope, left = clipped_phenotype(design.clip, sizes.n_phenotypes)
    attenuated = slope**2 * unit
    widths = np.array(design.layout.sizes)
    groups = np.array_split(np.argsort(widths), min(_BLOCK_GROUPS, len(widths)))
    middles = [int(group[len(group) // 2]) for group in groups]
    shares = [
        share_with_noisy_gram(
            BlockNoise(
                size=int(widths[block]),
                gram_sigma=gram[block] * people / (design.subsample or people),
                cross_sigma=mechanism.scales.phenotype_cross,
                eigenvalue=people * sizes.variant_variance,
                effect_variance=trait.heritability * attenuated / design.genotypes.variance,
                residual_variance=left * unit,
            ),
            eigenvalues,
        )
        for block in middles
    ]
    return float(np.average(shares, weights=[widths[group].sum() for group in groups]))
