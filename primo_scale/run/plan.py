"""Plan of a run: everything that is decided and checked before the first genotype is read.

`prepare` reads public inputs, headers, the ledger and, once, the text of the tables of people,
variants, phenotypes and covariates. It writes nothing, so that a dry run prints the plan that a run
carries out. Stages take their decisions from the plan and make none again. The method of a release
and the accuracy to expect of it follow from public facts alone: a run forecasts the release of its
cohort, and `forecast` those of sizes before a cohort is read.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import threadpool_limits

from primo_scale.accumulation import clipping_rules, plan, statistics
from primo_scale.accumulation.needs import Needs, check_needs, needs
from primo_scale.errors import Field, InputError, ResourceError, UsageError
from primo_scale.gaussian.calibration import check_draws
from primo_scale.genotypes import coding as genotype_coding
from primo_scale.genotypes import filters, ingest, source, tables
from primo_scale.genotypes.store import DOSAGES, GenotypeStore, open_genotype_store
from primo_scale.humanize import bytes_in_words
from primo_scale.interruption import check
from primo_scale.kernels.product_kernels import warmed_up
from primo_scale.ledger.ledger import Ledger
from primo_scale.machine import available_memory, n_threads, resident_memory, usable_cpus
from primo_scale.methods import catalogue, linear_algebra
from primo_scale.methods import forecast as forecasts
from primo_scale.outcomes import coding as outcome_coding
from primo_scale.outcomes.store import KIND as OUTCOMES_KIND
from primo_scale.outcomes.store import OutcomeRows, read_outcomes
from primo_scale.panel.ld import LdPanel, open_ld_panel
from primo_scale.privacy import payment, planning
from primo_scale.privacy.mechanism import Mechanism, Recipe, release_cost
from primo_scale.privacy.planning import PRIOR_HERITABILITY, Forecast, Measurement
from primo_scale.privacy.shares import SHARES
from primo_scale.publication.texts import FEW_VARIANTS, few_variants_in_words
from primo_scale.publication.weights import check_names
from primo_scale.run import design as designs
from primo_scale.run import fields, options, payments, public_inputs, work_directory
from primo_scale.run.design import Design
from primo_scale.run.ingest_stage import PlannedGenotypes, planned_genotypes
from primo_scale.run.options import AccumulateRequest, FinalizeRequest, Fit
from primo_scale.run.publishing import refuse_other_release, refuse_unwritable
from primo_scale.run.run_log import LOGGER, PLAN, progress_bar, stage
from primo_scale.storage.block_matrices import TILE, BlockLayout, stored_bytes
from primo_scale.storage.groups import is_complete
from primo_scale.storage.locations import Location, parse_location
from primo_scale.storage.resuming import is_of_this_request
from primo_scale.verify.formats import pgs_file_stems

if TYPE_CHECKING:
    from primo_scale.evaluation.score_features import ScoreFeatures

_BLOCK_GROUPS = 4
_SDS = 5.0  # bounds of the assumed phenotypes, in standard deviations from the mean

# ---- Method of a release -------------------------------------------------------------------------


def choose(design: Design, fit: Fit, *, private: bool) -> designs.ChosenMethod:
    """Return the method and its rule of shrinkage; without privacy, statistics have no noise."""
    if not private:
        return _choose_without_noise(design, fit)
    promise = design.promise
    if fit.method != "auto":
        method, reason = catalogue.method_named(fit.method, promise.unit), catalogue.AS_GIVEN
    elif design.subsample is not None:
        method = catalogue.method_named("sub-samp-reuse-cov", promise.unit)
        reason = catalogue.BY_SUBSAMPLE
    elif design.components is not None:
        method, reason = catalogue.METHODS[catalogue.COMPONENTS_METHOD], catalogue.BY_COMPONENTS
    else:
        method, reason = catalogue.choose_method(promise, design.sizes)
    if fit.gamma is not None:
        if method.name != catalogue.GAMMA_METHOD:
            raise UsageError(
                f"{method.name} has no share of the budget to set",
                where=Field("gamma"),
                value=fit.gamma,
                remedy=f"Leave it out, or give --method {catalogue.GAMMA_METHOD}",
            )
        method = replace(method, eigenvalue_share=fit.gamma)
    estimator = catalogue.estimator_for(method, fit.estimator)
    sampling = catalogue.ESTIMATORS[catalogue.COMPONENTS_ESTIMATOR]
    if design.components is None and estimator.fits_factors:
        raise UsageError(
            "estimates effects from LD components, which this release does not have",
            where=Field("shrinkage"),
            value=estimator,
            remedy="Leave it out, or give --ld-panel where the statistics are made",
        )
    if design.components is not None:
        if fit.estimator is None and method.name == catalogue.COMPONENTS_METHOD:
            estimator = sampling
        other = design.rounds == 2 and estimator is not sampling
        if method.name != catalogue.COMPONENTS_METHOD or estimator.is_ridge or other:
            raise UsageError(
                f"LD components are solved by {catalogue.COMPONENTS_METHOD} with the choices of "
                f"shrinkage, and two rounds with {sampling} weights",
                where="--method, shrinkage, --ridge",
                value=f"{method.name}, {estimator}",
                remedy="Leave it out, or give --no-ld-components or --rounds 1 where the "
                "statistics are made",
            )
    if fit.prior_weights and not method.takes_public_scores(estimator):
        raise UsageError(
            f"{method.name} with {estimator} weights does not build on public scores",
            where="--prior-weights",
            remedy="Leave them out, or give --method reuse-cov-gauss without --ridge",
        )
    return designs.ChosenMethod(method, reason, estimator)


def _choose_without_noise(design: Design, fit: Fit) -> designs.ChosenMethod:
    """Return the most accurate estimator without noise that the sizes of a design allow."""
    given = {
        "method": fit.method != "auto",
        "shrinkage": fit.shrinkage is not None,
        "gamma": fit.gamma is not None,
        "ridge": fit.ridge is not None and design.components is not None,
    }
    for option in given:
        if given[option]:
            raise UsageError("has no effect on these statistics without noise", where=Field(option))
    sampling = catalogue.ESTIMATORS[catalogue.COMPONENTS_ESTIMATOR]
    samples = design.components is not None or (
        max(design.block_sizes) <= designs.LARGEST_BLOCK
        and sampling.samples_effects_of(design.n_variants, design.layout.n_phenotypes)
    )
    rule = fit.estimator or (sampling if samples else catalogue.ESTIMATORS["effect-variances"])
    return designs.ChosenMethod(catalogue.METHODS["reuse-cov-gauss"], "no noise was added", rule)


def mechanism_of(design: Design, chosen: designs.ChosenMethod) -> Mechanism:
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


def forecast_release(
    design: Design, variants: tables.VariantTable, mechanism: Mechanism, heritability: float
) -> Forecast:
    """Return the accuracy expected of a private release with the noise of `mechanism`.

    Two rounds measure an even trait as well as one with the budget of both.
    """
    eigenvalues = design.eigenvalues(variants)
    squared = mechanism.scales.phenotype_cross**2
    if design.rounds == 2:
        squared *= SHARES.first_round
    sigma = np.sqrt(squared + designs.errors_of_gram(design, mechanism, heritability))
    measured = Measurement(
        design.sizes, eigenvalues, design.clip, sigma, designs.component_shares(design)
    )
    kept = 1.0
    if design.components is None:
        with threadpool_limits(1, user_api="blas"):  # as in `methods.map_blocks`
            kept = _share_with_noisy_gram(design, mechanism, heritability, eigenvalues)
    return planning.forecast_of(
        measured, design.n_variants, heritability=heritability, kept=kept, rounds=design.rounds
    )


def _share_with_noisy_gram(
    design: Design, mechanism: Mechanism, heritability: float, eigenvalues: linear_algebra.Float64
) -> float:
    """Return the mean share of `share_with_noisy_gram` over groups of LD blocks of similar size."""
    gram, sizes = mechanism.scales.gram, design.sizes
    people, unit = design.public_n, sizes.phenotype_scale**2
    slope, left = planning.clipped_phenotype(design.clip, sizes.n_phenotypes)
    attenuated = slope**2 * unit
    widths = np.array(design.layout.sizes)
    groups = np.array_split(np.argsort(widths), min(_BLOCK_GROUPS, len(widths)))
    middles = [int(group[len(group) // 2]) for group in groups]
    shares = [
        forecasts.share_with_noisy_gram(
            eigenvalues,
            size=int(widths[block]),
            gram_sigma=gram[block] * people / (design.subsample or people),
            cross_sigma=mechanism.scales.phenotype_cross,
            eigenvalue=people * sizes.variant_variance,
            effect_variance=heritability * attenuated / design.genotypes.variance,
            residual_variance=left * unit,
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


@fields.takes(options.ForecastRequest)
def forecast(request: options.ForecastRequest) -> tuple[ForecastRow, ...]:
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
    table = source.open_source(source.SourceFiles(request.ld_panel)).variants
    chosen, _ = filters.select_variants(table, filters.Selection(extract=request.extract))
    variants = table.select(chosen)
    frequencies = genotype_coding.read_reference_frequencies(request.ref_freq, variants)
    genotype_coding.refuse_few_matches(frequencies)
    panel = open_ld_panel(request.ld_panel, variants)
    public_inputs.warn_of_other_population(panel, frequencies)
    model = options.Model(
        ref_freq=request.ref_freq, ld_panel=request.ld_panel, ld_components=request.ld_components
    )
    traits = [
        outcome_coding.PhenotypeBounds(f"T{number}", -_SDS, _SDS, 0.0, 1.0, "quantitative")
        for number in range(max(request.phenotypes))
    ]
    rows: list[ForecastRow] = []
    sizes = list(itertools.product(request.people, request.phenotypes, request.epsilon))
    with progress_bar("forecast", "releases") as move:
        for people, phenotypes, epsilon in sizes:
            check()
            move(len(rows), len(sizes))
            delta = request.delta_of(people)
            design = designs.make_design(
                people,
                variants,
                model,
                options.Privacy(epsilon=epsilon, delta=delta),
                panels=designs.PublicPanels(frequencies, panel),
                outcomes=outcome_coding.code_outcomes(
                    traits[:phenotypes], (), largest_unit=outcome_coding.ADJUSTED_UNIT
                ),
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


# ---- Plan of a run -------------------------------------------------------------------------------

_LARGEST_EPSILON = 10.0  # that is not warned of
# Resident size of a process that has loaded what it releases with (measured, Linux, Python 3.11:
# 300 to 350 MiB).
_PROCESS_BYTES = 350 << 20
# Copies of all weights while they are solved: on the lattice, per allele, and one in between.
_WEIGHT_COPIES = 3
# Marginal effects, their standard errors, and temporary arrays of a block, at most as large.
_SUMSTATS_COPIES = 4
# Names and alleles of a variant, and its lines on the way to the files (measured: 140 and 400).
_BYTES_PER_VARIANT = 600
# Copies of a tile of X'X while a thread draws its noise (measured: 120 MiB in all), and of Z'Z.
_TILE_COPIES, _OUTCOME_GRAM_COPIES = 15, 4
_ENTRY_BYTES = 8
# Draws of effects from the posterior of the first of two rounds, and copies of what is kept of it.
_STATES, _ROUND_COPIES = 180, 2


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """Decisions of one run. PRIVATE: they reveal the number of people."""

    request: AccumulateRequest
    store: GenotypeStore  # genotypes, or the tables of those that the ingest will write
    design: Design
    panels: designs.PublicPanels  # from which the design was made
    release: designs.PlannedRelease | None = None  # None if statistics alone are asked for
    accuracy: Forecast | None = None  # None for a release without noise
    sums: Needs | None = None  # None if the statistics are finished
    rows: OutcomeRows | None = None  # outcomes; None if they are aligned already
    warnings: tuple[str, ...] = ()  # of a dry run; a run logs its warnings
    # Store that score features are computed from; `store`, if there are none.
    genotypes: GenotypeStore | None = None

    def __repr__(self) -> str:
        layout, sizes = self.design.layout, (self.design.n_samples, self.design.n_variants)
        words = "{} people, {} variants, {} phenotypes".format(*sizes, layout.n_phenotypes)
        expected = "" if self.accuracy is None else f"; R^2 {self.accuracy.r_squared:.3g}"
        return f"Plan({words}{expected}; warnings: {len(self.warnings)})"


@stage(PLAN)
def prepare(request: AccumulateRequest, *, dry_run: bool = False) -> Plan:
    """Return the plan of a run, unless an input, the ledger or this machine refuses it.

    The run itself holds the lock of its work directory.
    """
    work_dir, destination = request.work_dir, request.work_dir / work_directory.GENOTYPES
    if not isinstance(request, options.ReleaseRequest) or isinstance(request.genotypes, Location):
        store = open_genotype_store(request.genotypes)
    else:
        store = planned_genotypes(request.files, destination, request.ld_panel)
    genotypes = store
    known = designs.find_design(work_dir / work_directory.DESIGN)
    coding, loadings = public_inputs.outcome_coding(request, request, store)
    phenotypes = [p.name for p in coding.phenotypes]
    check_names(store.variants, phenotypes, [c.name for c in coding.covariates])
    pgs_file_stems(phenotypes)  # refuses names that make equal ones
    settled = None if known is None else known.panel
    panels = public_inputs.read_panels(request, store, coding, loadings, settled)
    if isinstance(request, options.ReleaseRequest) and request.score_features:
        from primo_scale.run.score_features import read_features  # loads pandas

        build = tables.genome_build(request.genome_build, store.variants)
        path = work_dir / work_directory.SCORE_FEATURES
        panels = read_features(request.score_features, store, panels, build, path)
        store = panels.features or store
    bucket = request.object_store
    variants, dosages = store.variants, store.packing is DOSAGES
    design = designs.make_design(
        store.n_samples, variants, request, request, panels=panels, outcomes=coding, dosages=dosages
    )
    kept = None if bucket is None else str(bucket)
    design = replace(design, genotype_store=str(store.path.resolve()), object_store=kept)
    release, sumstats = None, False
    if isinstance(request, options.ReleaseRequest):
        sumstats, populations = request.sumstats, design.populations
        panel = panels.ld if populations is not None and populations.members else None
        release = _planned_release(design, request, store, panel, genotypes, panels.features)
    chosen = choose(design, Fit(), private=design.clipped) if release is None else release.chosen
    accuracy = _expected_accuracy(design, store, chosen, request)
    _ask_ledger(request, store, design)
    memory = release_memory(design, chosen, sumstats=sumstats)
    if panels.features is not None:
        memory += panels.features.needed_bytes(len(phenotypes))
    summed = aligned = False
    if bucket is None or work_directory.last_claimed(work_dir) == str(bucket):
        root = work_directory.store_root(work_dir, bucket)
        aligned = is_complete(root / work_directory.OUTCOMES, OUTCOMES_KIND)
        summed = statistics.finished_plan_digest(root / work_directory.STATISTICS) is not None
    sums, rows = None, None
    if summed:
        _refuse_other_design(known, design, work_dir)
    else:
        sums = _sum_needs(request, store, design, chosen, memory, genotypes)
    if release is not None:
        refuse_small_memory(design, memory)
    if not (summed or aligned):
        rows = read_outcomes(
            store.samples,
            (request.pheno, request.covar),
            coding,
            scratch=None if dry_run else work_dir,
            n_covariates=len(coding.covariates) - (0 if loadings is None else len(loadings.bounds)),
            to_adjust=design.clipped,
            people_file=store.people_file,
        )
    return Plan(request, store, design, panels, release, accuracy, sums, rows, genotypes=genotypes)


def prepare_release(request: FinalizeRequest) -> designs.PlannedRelease:
    """Return the plan of a release of finished statistics, unless it is refused."""
    design = designs.load_design(request.work_dir / work_directory.DESIGN)
    if design.features:
        remedy = "Run release again with the same --score-features"
        raise UsageError("these are sums of scores", where=request.work_dir, remedy=remedy)
    store = open_genotype_store(parse_location(design.genotype_store))
    _refuse_other_guarantee(design, request)
    panel = public_inputs.open_panel(design, store.variants)
    release = _planned_release(design, request, store, panel, store)
    _expected_accuracy(design, store, release.chosen, request)
    if not request.non_private and design.guarantee is not None:
        payments.announce_opening(store, design.guarantee, request)
    refuse_small_memory(design, release_memory(design, release.chosen, sumstats=request.sumstats))
    return release


def _refuse_other_guarantee(design: Design, request: FinalizeRequest) -> None:
    """Refuse a release that the statistics do not serve."""
    given, work_dir = design.guarantee, request.work_dir
    if request.non_private:
        if design.subsample is not None:
            raise UsageError(
                "the subsample of these statistics is secret: its X'X is never shown without noise",
                where=work_dir,
                remedy="Run accumulate with --non-private in another --work-dir",
            )
    elif given is None:
        raise UsageError(
            "these statistics are of unclipped rows and can never be private",
            where=work_dir,
            remedy="Run accumulate without --non-private in another --work-dir",
        )
    elif (request.epsilon, request.delta) != (given.epsilon, given.delta):
        raise UsageError(
            "the phenotypes were adjusted for a release with another epsilon and delta",
            where="--epsilon",
            value=f"{request.epsilon:g}, {request.delta:g}",
            limit=f"{given.epsilon:g}, {given.delta:g}",
        )


def _refuse_other_design(known: Design | None, design: Design, work_dir: Path) -> None:
    """Refuse finished statistics of another design, or whose noise is lost.

    Another adjustment would be paid for, and the statistics would not fit it.
    """
    if known is None:
        return
    path = payment.NoiseStore(work_dir / work_directory.NOISE).adjustment_path
    if known.adjustment is not None and not path.is_file():
        raise InputError(
            "the adjustment of the phenotypes in the finished statistics is missing",
            where=path,
            remedy="Restore the file, or use another --work-dir, which pays again",
        )
    root = work_directory.store_root(work_dir, design.object_store)
    is_of_this_request(root / work_directory.STATISTICS, known.planned_digest, design.digest)


# ---- The release ---------------------------------------------------------------------------------


def _planned_release(
    design: Design,
    request: FinalizeRequest,
    store: GenotypeStore,
    panel: LdPanel | None,
    genotypes: GenotypeStore,
    features: ScoreFeatures | None = None,
) -> designs.PlannedRelease:
    """Return the release with its method, public scores and genome build, unless it is refused."""
    private = not request.non_private
    variants, chosen = genotypes.variants, choose(design, request, private=private)
    if request.sumstats and (design.components is not None or design.reference is None):
        raise UsageError(
            "summary statistics are of single variants, not LD components, and their effects are "
            "scaled by public allele frequencies",
            where="--sumstats",
            remedy="Give --ref-freq and --no-ld-components where the statistics are made, or leave "
            "--sumstats out",
        )
    if request.calibrate and not design.held_out:
        raise UsageError(
            "weights are calibrated by people held out, and these statistics have none",
            where=Field("calibrate"),
            remedy="Give --hold-out where the statistics are made, or leave calibrate out",
        )
    build = tables.genome_build(request.genome_build, variants)
    if request.genome_build is None and build == tables.NOT_REPORTED:
        LOGGER.warning(
            "genome build unknown: give --genome-build (the PGS Catalog's tools require it)"
        )
    refuse_other_release(request, design, build, private=private)
    scores, sources = public_inputs.read_prior_scores(
        request.prior_weights, variants, design, build
    )
    chosen = replace(chosen, scores=scores, sources=sources)
    given = request.deployment
    deployment = None if given is None else public_inputs.read_deployment(given)
    return designs.PlannedRelease(
        design, request, store, chosen, build, panel, deployment, features
    )


def _expected_accuracy(
    design: Design,
    store: GenotypeStore,
    chosen: designs.ChosenMethod,
    request: AccumulateRequest | FinalizeRequest,
) -> Forecast | None:
    """Log and return the expected accuracy; refuse a release of noise, unless it is accepted.

    It is None without noise.
    """
    given, private = design.guarantee, not request.non_private
    if private and given is not None and given.epsilon > _LARGEST_EPSILON:
        LOGGER.warning(
            "--epsilon %g is above %g, and promises little: the odds of a statement about one "
            "person change by a factor of at most e^%g (docs/how-to/choose.md)",
            given.epsilon, _LARGEST_EPSILON, given.epsilon,
        )  # fmt: skip
    if design.n_variants <= FEW_VARIANTS and not design.features:
        LOGGER.warning("%s", few_variants_in_words(design.n_variants))
    if not outcome_coding.has_components(
        covariate.name for covariate in design.outcomes.covariates
    ):
        LOGGER.warning("%s %s", outcome_coding.NO_COMPONENTS, outcome_coding.COMPONENTS_REMEDY)
    if not private:
        return None
    heritability = PRIOR_HERITABILITY * store.heritability_share  # of which variants explain it
    expected = forecast_release(design, store.variants, mechanism_of(design, chosen), heritability)
    assumed = ""
    if store.heritability_share < 1:
        assumed = f", {heritability:.2g} of it by these variants"
    LOGGER.info(
        "forecast: R^2 %.2g in other people, %.2g without noise; %.2g if %.0f%% of variants matter",
        expected.r_squared, expected.without_noise, expected.sparse, 100 * planning.SPARSE_SHARE,
    )  # fmt: skip
    LOGGER.info(
        "forecast: as accurate as %g of %d people without noise, for a heritability of %g%s",
        expected.stated_size, design.public_n, PRIOR_HERITABILITY, assumed,
    )  # fmt: skip
    if expected.is_noise and not request.accept_noise:
        raise UsageError(
            "the weights of this release would be noise: they are expected to explain too little "
            "of the variance",
            where="--epsilon",
            value=f"R^2 {expected.r_squared:.2g}",
            limit=f"at least {planning.LEAST_USEFUL_R2:g}",
            remedy="Release fewer phenotypes or variants, or of more people, or with a larger "
            "--epsilon; or give --accept-noise to spend the budget on it all the same",
        )
    if expected.is_noise:
        LOGGER.warning("the weights of this release will be noise, as --accept-noise accepts")
    return expected


def _ask_ledger(request: AccumulateRequest, store: GenotypeStore, design: Design) -> None:
    """Refuse a release that the ledger would not pay for; a stored one needs no payment."""
    given, path = design.guarantee, request.ledger_path
    if given is None:
        return
    payments.refuse_shared_iids(store)
    refuse_unwritable(path)
    noise_store = payment.NoiseStore(request.work_dir / work_directory.NOISE)
    # A new ledger opens the budget of the release.
    if path.exists() or noise_store.used_charges():
        with Ledger(path, read_only=True) as ledger:
            cohort = payments.paying_cohort_of(ledger, store, request.cohort, given)
            # Refuses noise that another ledger paid for.
            payer = payment.Payer(ledger, noise_store, *cohort)
            charge = payer.request("", {}, given, release_cost(given, design.subsample))
            ledger.check_request(charge, stored_noise=noise_store.charges())
    payments.announce_opening(store, given, request)


# ---- Memory and disk -----------------------------------------------------------------------------


def release_memory(design: Design, chosen: designs.ChosenMethod, *, sumstats: bool = False) -> int:
    """Return the peak memory of a process that makes a release by the chosen method."""
    layout, n_phenotypes = design.layout, design.layout.n_phenotypes
    n_scores = 0 if chosen.scores is None else chosen.scores.effects.shape[1]
    weights = _ENTRY_BYTES * design.n_variants * n_phenotypes
    # LD components are solved as columns of the statistics, and give weights of all variants.
    solving = weights - _ENTRY_BYTES * layout.n_variants * (n_phenotypes - n_scores)
    solving += forecasts.effects_bytes(layout, design.block_sizes, chosen.estimator)
    solving += forecasts.solve_bytes(layout, chosen.method, chosen.estimator, n_scores=n_scores)
    if design.rounds == 2:
        from primo_scale.methods.second_round import LARGEST_WINDOW  # loads the sampler's kernels

        entries = design.n_variants * LARGEST_WINDOW + _n_directions(design) * LARGEST_WINDOW
        entries += usable_cpus() * _STATES * design.n_variants
        solving = max(solving, _ENTRY_BYTES * _ROUND_COPIES * entries)
    publishing = (_WEIGHT_COPIES + _SUMSTATS_COPIES * sumstats) * weights
    publishing += _BYTES_PER_VARIANT * design.n_variants
    tiles = min(n_threads(), layout.n_blocks) * min(max(layout.sizes), TILE) ** 2
    drawing = _TILE_COPIES * tiles + _OUTCOME_GRAM_COPIES * layout.n_outcomes**2
    return max(_PROCESS_BYTES, resident_memory()) + max(solving, publishing, _ENTRY_BYTES * drawing)


def refuse_small_memory(design: Design, needed: int) -> None:
    """Refuse a release that needs more memory than this process has and can get."""
    there = available_memory() + resident_memory()
    if needed > there:
        raise ResourceError(
            f"not enough memory to solve blocks of up to {max(design.layout.sizes)} variants and "
            "to hold the weights of all phenotypes",
            value=f"{bytes_in_words(there)} there",
            limit=f"{bytes_in_words(needed)} needed",
            remedy="Finalize where there is more memory, or use fewer phenotypes (--pheno-name) or "
            "smaller LD blocks (--ld-blocks window:N) in a new --work-dir",
        )


def _sum_needs(
    request: AccumulateRequest,
    store: GenotypeStore,
    design: Design,
    chosen: designs.ChosenMethod,
    release_bytes: int,
    genotypes: GenotypeStore,
) -> Needs:
    """Log the needs of the sums and of the release after them; refuse a small machine."""
    # Load the table of people now: it stays in the memory that this process is measured to use.
    LOGGER.debug("%d people", len(store.samples.individual))
    root = work_directory.store_root(request.work_dir, request.object_store)
    # What an interrupted run left is used again, or deleted before other files are written.
    files = work_directory
    names = files.OUTCOMES, files.UNADJUSTED, files.DIRECTIONS, *files.SUMS
    there = [root / name for name in names]
    layout, components = design.layout, design.components is not None
    largest = genotype_coding.LARGEST_CODE if components else design.genotypes.max_code
    kernel = warmed_up(request.kernel, largest)
    needs_of = partial(
        needs,
        chunk_shape=store.chunk_shape,
        packing=store.packing,
        kernel=kernel,
        largest_code=largest,
        subsampled=design.subsample is not None,
    )
    first = needs_of(
        plan.default_plan(layout, design.n_samples, design.phenotype_step),
        multiplier_columns=clipping_rules.multiplier_columns(design.clipping_rule),
        variants=design.block_sizes if components else None,
    )
    copies = layout.n_phenotypes if chosen.method.gram_per_phenotype else 1
    sums, later = first, stored_bytes(layout, gram_copies=copies) if design.clipped else 0
    if design.rounds == 2:
        from primo_scale.methods.second_round import LARGEST_WINDOW, windows_of

        sizes = tuple(stop - start for start, stop in pairwise(windows_of(design.boundaries)))
        share = _n_directions(design) / design.n_variants
        boundaries = (0, *accumulate(math.ceil(size * share) for size in sizes))
        own = BlockLayout(boundaries, 0, layout.n_phenotypes)
        second_plan = plan.default_plan(own, design.n_samples, sums_gram=False)
        second = needs_of(second_plan, multiplier_columns=1, variants=sizes)
        # Beside the map of every direction, from the codes of its window.
        later += second.partial_bytes + _n_directions(design) * LARGEST_WINDOW
        sums = replace(
            first,
            tasks=first.tasks + second.tasks,
            task_bytes=max(first.task_bytes, second.task_bytes),
            worker_bytes=max(first.worker_bytes, second.worker_bytes),
        )
    rows = 2 * design.n_samples * design.outcomes.n_columns
    unadjusted = rows if design.clipped else 0
    if request.object_store is None:
        # Private statistics and a second round are written after partial sums are deleted.
        disk = first.disk_bytes + unadjusted + max(0, later - first.partial_bytes)
    else:
        in_bucket = bytes_in_words(unadjusted + first.disk_bytes)
        LOGGER.info("pre-flight: %s in %s", in_bucket, request.object_store)
        # Rows of people are sorted on this disk before they are copied to the bucket.
        disk = max(rows, later)
    if design.features:
        disk, store = disk + store.n_samples * store.n_variants, genotypes
    if isinstance(store, PlannedGenotypes):
        disk += ingest.store_bytes(store.plan, store.plan.n_partitions)
        there.append(store.plan.partial)
    sums = replace(sums, disk_bytes=disk)
    # The directories need not exist.
    below = (f for path in there if isinstance(path, Path) for f in path.rglob("*") if f.is_file())
    there_bytes = sum(file.stat().st_size for file in below)
    line = check_needs(sums, request.profile, request.work_dir, bytes_there=there_bytes)
    LOGGER.info("pre-flight: %s, kernel %s", line, kernel)
    LOGGER.debug(
        "pre-flight: noise and weights take %s of memory, in blocks of up to %d variants",
        bytes_in_words(release_bytes), max(layout.sizes),
    )  # fmt: skip
    return sums


def _n_directions(design: Design) -> int:
    """Return the number of directions of a second round: as many as components, for each phenotype.

    The number depends on noisy statistics, and this is more than in releases that were measured.
    """
    return design.layout.n_variants * design.layout.n_phenotypes
