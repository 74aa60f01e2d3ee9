"""Method of a release and the accuracy to expect of it, from public facts alone.

A run forecasts the release of its cohort, and `forecast` those of sizes before a cohort is read.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace

import numpy as np
from threadpoolctl import threadpool_limits

from primo_scale.errors import UsageError
from primo_scale.gaussian.calibration import check_draws
from primo_scale.genotypes.coding import read_reference_frequencies, refuse_few_matches
from primo_scale.genotypes.filters import Selection, select_variants
from primo_scale.genotypes.source import SourceFiles, open_source
from primo_scale.genotypes.store import GenotypeStore
from primo_scale.genotypes.tables import VariantTable
from primo_scale.interruption import check
from primo_scale.methods.catalogue import (
    AS_GIVEN,
    BY_COMPONENTS,
    BY_SUBSAMPLE,
    ESTIMATORS,
    GAMMA_METHOD,
    METHODS,
    Estimator,
    Method,
    choose_method,
    estimator_for,
    method_named,
)
from primo_scale.methods.forecast import BlockNoise, share_with_noisy_gram
from primo_scale.methods.linear_algebra import Float64
from primo_scale.outcomes.coding import ADJUSTED_UNIT, OutcomeCoding, PhenotypeBounds, code_outcomes
from primo_scale.panel.ld import LdPanel, open_ld_panel
from primo_scale.privacy.mechanism import SHARES, Mechanism, Recipe
from primo_scale.privacy.planning import (
    PRIOR_HERITABILITY,
    Forecast,
    Measurement,
    clipped_phenotype,
    expected_r2_sum,
    forecast_of,
    spectrum_shape,
)
from primo_scale.run.design import (
    LARGEST_BLOCK,
    Design,
    NoGenotypes,
    PublicPanels,
    component_shares,
    errors_of_gram,
    make_design,
)
from primo_scale.run.fields import takes
from primo_scale.run.public_inputs import PriorScores, warn_of_other_population
from primo_scale.run.request import FinalizeRequest, Fit, ForecastRequest, Model, Privacy
from primo_scale.run.run_log import progress_bar

_COMPONENTS_METHOD = "reuse-cov-gauss"
_COMPONENTS_ESTIMATOR = "point-normal"
_BLOCK_GROUPS = 4
_SDS = 5.0  # bounds of the assumed phenotypes, in standard deviations from the mean

# ---- Method of a release -------------------------------------------------------------------------


@dataclass(frozen=True)
class ChosenMethod:
    """Method of the catalogue, its rule of shrinkage, and the reason for them in words."""

    method: Method
    reason: str
    estimator: Estimator
    priors: PriorScores | None = field(default=None, repr=False)  # public scores to build on


@dataclass(frozen=True)
class PlannedRelease:
    """Release to be made of statistics."""

    design: Design
    request: FinalizeRequest
    store: GenotypeStore  # of the people in the statistics
    chosen: ChosenMethod
    build: str  # genome build that the release states
    private: bool  # whether it has noise
    panel: LdPanel | None = None  # where its people have populations


def choose(design: Design, fit: Fit, *, private: bool) -> ChosenMethod:
    """Return the method and its rule of shrinkage; without privacy, statistics have no noise."""
    if not private:
        return _choose_without_noise(design, fit)
    promise = design.promise
    if fit.method != "auto":
        method, reason = method_named(fit.method, promise.unit), AS_GIVEN
    elif design.subsample is not None:
        method, reason = method_named("sub-samp-reuse-cov", promise.unit), BY_SUBSAMPLE
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
    if fit.prior_weights and not method.takes_public_scores(estimator):
        raise UsageError(
            f"{method.name} with {estimator} weights does not build on public scores",
            where="--prior-weights",
            remedy="Leave them out, or give --method reuse-cov-gauss without --ridge",
        )
    return ChosenMethod(method, reason, estimator)


def _choose_without_noise(design: Design, fit: Fit) -> ChosenMethod:
    """Return the most accurate estimator without noise that the sizes of a design allow."""
    if fit.method != "auto":
        raise UsageError("without noise all methods are one", where="--method")
    if fit.shrinkage is not None:
        raise UsageError("without noise there is nothing to shrink", where="--shrinkage")
    if fit.gamma is not None:
        raise UsageError("without noise there is no budget to share", where="--gamma")
    if fit.ridge is not None and design.components is not None:
        raise UsageError("LD components are solved without a penalty", where="--ridge")
    sampling = ESTIMATORS[_COMPONENTS_ESTIMATOR]
    samples = design.components is not None or (
        max(design.block_sizes) <= LARGEST_BLOCK
        and sampling.samples_effects_of(design.n_variants, design.layout.n_phenotypes)
    )
    rule = fit.estimator or (sampling if samples else ESTIMATORS["effect-variances"])
    return ChosenMethod(METHODS["reuse-cov-gauss"], "no noise was added", rule)


def _estimator(design: Design, method: Method, fit: Fit) -> Estimator:
    """Return the rule of shrinkage, by default the most accurate one of LD components."""
    estimator = estimator_for(method, fit.estimator)
    if design.components is None:
        if estimator.fits_factors:
            raise UsageError(
                "estimates effects from LD components, which this release does not have",
                where="--shrinkage",
                value=estimator,
                remedy="Leave it out, or give --ld-panel where the statistics are made",
            )
        return estimator
    if fit.estimator is None and method.name == _COMPONENTS_METHOD:
        estimator = ESTIMATORS[_COMPONENTS_ESTIMATOR]
    if method.name != _COMPONENTS_METHOD or estimator.is_ridge:
        raise UsageError(
            f"LD components are solved by {_COMPONENTS_METHOD} with the choices of --shrinkage",
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


def mechanism_of(design: Design, chosen: ChosenMethod) -> Mechanism:
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
    return design.mechanism(recipe)


# ---- Accuracy of a release -----------------------------------------------------------------------


def heritability_of(store: GenotypeStore) -> float:
    """Return the prior heritability, of which the variants explain their share."""
    return PRIOR_HERITABILITY * store.heritability_share


def forecast_release(
    design: Design, variants: VariantTable, mechanism: Mechanism, heritability: float
) -> Forecast:
    """Return the accuracy expected of a private release with the noise of `mechanism`.

    Two rounds measure an even trait as well as one with the budget of both.
    """
    eigenvalues = public_eigenvalues(design, variants)
    squared = mechanism.scales.phenotype_cross**2
    if design.rounds == 2:
        squared *= SHARES.first_round
    sigma = np.sqrt(squared + errors_of_gram(design, mechanism, heritability))
    measured = Measurement(design.sizes, eigenvalues, design.clip, sigma, component_shares(design))
    kept = 1.0
    if design.components is None:
        with threadpool_limits(1, user_api="blas"):  # as in `methods.map_blocks`
            kept = _share_with_noisy_gram(design, mechanism, heritability, eigenvalues)
    return forecast_of(
        measured, design.n_variants, heritability=heritability, kept=kept, rounds=design.rounds
    )


def public_eigenvalues(design: Design, variants: VariantTable) -> Float64:
    """Return eigenvalues of the genotypes' correlation matrix: the panel's, or expected ones."""
    if design.panel is not None:
        return design.panel.eigenvalues
    total = expected_r2_sum(variants.chromosome, variants.position, design.boundaries)
    return spectrum_shape(total, design.n_variants)


def _share_with_noisy_gram(
    design: Design, mechanism: Mechanism, heritability: float, eigenvalues: Float64
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
                effect_variance=heritability * attenuated / design.genotypes.variance,
                residual_variance=left * unit,
            ),
            eigenvalues,
        )
        for block in middles
    ]
    return float(np.average(shares, weights=[widths[group].sum() for group in groups]))


# ---- Releases before a cohort is read ------------------------------------------------------------


@dataclass(frozen=True)
class ForecastRow:
    """Expected accuracy of one release for a trait of the prior heritability.

    Attributes
    ----------
    people, phenotypes, variants : int
        Sizes of the release.
    epsilon, delta : float
        Privacy parameters of the release.
    columns : int
        Number of LD components, or of variants without them.
    clip : float
        Bound on the norm of a row of standardised phenotypes, divided by the square root of their
        number.
    r2 : float
        Share of the trait's variance that scores explain in other people.
    r2_without_noise : float
        The same share for a release of the same people without bounds and noise.
    effective_people : float
        Number of people whose release without noise explains as much.
    sparse_r2 : float
        Share for a trait of which 1% of the variants have effects.
    """

    people: int
    phenotypes: int
    variants: int
    epsilon: float
    delta: float
    columns: int
    clip: float
    r2: float
    r2_without_noise: float
    effective_people: float
    sparse_r2: float


@takes(ForecastRequest)
def forecast(request: ForecastRequest) -> tuple[ForecastRow, ...]:
    """Forecast every release of a request, with full privacy and replace-one adjacency.

    Returns
    -------
    tuple of ForecastRow
        Row of each release: of each number of people, each number of phenotypes and each epsilon.

    Raises
    ------
    InputError
        The panel or the frequencies are malformed, or do not belong together.
    UsageError
        A privacy parameter is out of range.
    """
    table = open_source(SourceFiles(request.ld_panel)).variants
    chosen, _ = select_variants(table, Selection(extract=request.extract))
    variants = table.select(chosen)
    frequencies = read_reference_frequencies(request.ref_freq, variants)
    refuse_few_matches(frequencies)
    panel = open_ld_panel(request.ld_panel, variants)
    warn_of_other_population(panel, frequencies, variants)
    model = Model(
        ref_freq=request.ref_freq, ld_panel=request.ld_panel, ld_components=request.ld_components
    )
    rows: list[ForecastRow] = []
    sizes = list(itertools.product(request.people, request.phenotypes, request.epsilon))
    with progress_bar("forecast", "releases") as move:
        for people, phenotypes, epsilon in sizes:
            check()
            move(len(rows), len(sizes))
            delta = request.delta_of(people)
            design = make_design(
                NoGenotypes(people, variants),
                model,
                Privacy(epsilon=epsilon, delta=delta),
                panels=PublicPanels(frequencies, panel),
                outcomes=_standard_normal(phenotypes),
            )
            mechanism = design.mechanism(Recipe())
            expected = forecast_release(design, variants, mechanism, PRIOR_HERITABILITY)
            rows.append(
                ForecastRow(
                    people=people,
                    phenotypes=phenotypes,
                    variants=len(variants),
                    epsilon=epsilon,
                    delta=delta,
                    columns=design.layout.n_variants,
                    clip=design.clip,
                    r2=expected.r_squared,
                    r2_without_noise=expected.without_noise,
                    effective_people=expected.effective_sample_size,
                    sparse_r2=expected.sparse,
                )
            )
        move(len(rows), len(sizes))
    return tuple(rows)


def _standard_normal(count: int) -> OutcomeCoding:
    """Return the coding of so many quantitative phenotypes, bounded at five sds."""
    traits = [
        PhenotypeBounds(f"T{number}", -_SDS, _SDS, 0.0, 1.0, "quantitative")
        for number in range(count)
    ]
    return code_outcomes(traits, (), largest_unit=ADJUSTED_UNIT)
