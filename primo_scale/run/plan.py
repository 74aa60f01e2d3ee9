"""Plan of a run: everything that is decided and checked before the first genotype is read.

`prepare` reads public inputs, headers, the ledger and, once, the text of the tables of people,
variants, phenotypes and covariates. It writes nothing, so that a dry run prints the plan that a run
carries out. Stages take their decisions from the plan and make none again.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path

from primo_scale.accumulation.clipping_rules import multiplier_columns
from primo_scale.accumulation.needs import Needs, check_needs, needs
from primo_scale.accumulation.plan import Plan as SumPlan
from primo_scale.accumulation.plan import default_plan
from primo_scale.accumulation.statistics import finished_plan_digest
from primo_scale.errors import InputError, ResourceError, UsageError
from primo_scale.genotypes.coding import LARGEST_CODE
from primo_scale.genotypes.ingest import store_bytes
from primo_scale.genotypes.store import GenotypeStore, open_genotype_store
from primo_scale.genotypes.tables import NOT_REPORTED, VariantTable
from primo_scale.humanize import bytes_in_words
from primo_scale.kernels.product_kernels import warmed_up
from primo_scale.ledger.event_log import JOURNAL_NAME_BYTES, NEW_LOG_NAME_BYTES
from primo_scale.ledger.ledger import Ledger
from primo_scale.machine import available_memory, n_threads, resident_memory, usable_cpus
from primo_scale.methods.forecast import effects_bytes, solve_bytes
from primo_scale.outcomes.coding import (
    COMPONENTS_REMEDY,
    NO_COMPONENTS,
    OutcomeCoding,
    has_components,
)
from primo_scale.outcomes.store import KIND as OUTCOMES_KIND
from primo_scale.outcomes.store import OutcomeFiles, OutcomeRows, read_outcomes
from primo_scale.panel.ld import LdPanel
from primo_scale.privacy.mechanism import release_cost
from primo_scale.privacy.payment import NoiseStore, Payer
from primo_scale.privacy.planning import LEAST_USEFUL_R2, PRIOR_HERITABILITY, SPARSE_SHARE, Forecast
from primo_scale.publication.texts import FEW_VARIANTS, few_variants_in_words
from primo_scale.publication.weights import check_names
from primo_scale.run import work_directory
from primo_scale.run.design import Design, PublicPanels, find_design, load_design, make_design
from primo_scale.run.forecast import (
    ChosenMethod,
    PlannedRelease,
    choose,
    forecast_release,
    heritability_of,
    mechanism_of,
)
from primo_scale.run.ingest_stage import PlannedGenotypes, planned_genotypes
from primo_scale.run.payments import announce_opening, paying_cohort_of, refuse_shared_iids
from primo_scale.run.public_inputs import open_panel, outcome_coding, read_panels, read_prior_scores
from primo_scale.run.publishing import refuse_other_release, refuse_unwritable
from primo_scale.run.request import (
    AccumulateRequest,
    Execution,
    FinalizeRequest,
    Fit,
    ReleaseRequest,
)
from primo_scale.run.run_log import LOGGER
from primo_scale.storage.block_matrices import TILE, BlockLayout, stored_bytes
from primo_scale.storage.files import is_of_this_request
from primo_scale.storage.groups import is_complete
from primo_scale.storage.locations import Location, ObjectUrl, parse_location
from primo_scale.verify.formats import pgs_file_stems

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
    panels: PublicPanels  # from which the design was made
    release: PlannedRelease | None = None  # None if statistics alone are asked for
    accuracy: Forecast | None = None  # None for a release without noise
    sums: Needs | None = None  # None if the statistics are finished
    rows: OutcomeRows | None = None  # outcomes; None if they are aligned already
    warnings: tuple[str, ...] = ()  # of a dry run; a run logs its warnings

    def __repr__(self) -> str:
        layout, sizes = self.design.layout, (self.design.n_samples, self.design.n_variants)
        words = "{} people, {} variants, {} phenotypes".format(*sizes, layout.n_phenotypes)
        expected = "" if self.accuracy is None else f"; R^2 {self.accuracy.r_squared:.3g}"
        return f"Plan({words}{expected}; warnings: {len(self.warnings)})"


def prepare(request: AccumulateRequest, *, dry_run: bool = False) -> Plan:
    """Return the plan of a run, unless an input, the ledger or this machine refuses it.

    The run itself holds the lock of its work directory.
    """
    store, work_dir = _genotypes(request), request.work_dir
    known = find_design(work_dir / work_directory.DESIGN)
    coding, loadings = outcome_coding(request, request, store)
    _check_publishable(store.variants, coding)
    panels = read_panels(
        request, store, coding, loadings,
        private=not request.non_private, settled=None if known is None else known.panel,
    )  # fmt: skip
    bucket = request.object_store
    design = replace(
        make_design(store, request, request, panels=panels, outcomes=coding),
        object_store=None if bucket is None else str(bucket),
    )
    release, sumstats = None, False
    if isinstance(request, ReleaseRequest):
        sumstats, populations = request.sumstats, design.populations
        panel = panels.ld if populations is not None and populations.members else None
        release = _planned_release(design, request, store, panel, private=design.clipped)
    chosen = choose(design, Fit(), private=design.clipped) if release is None else release.chosen
    accuracy = _expected_accuracy(
        design, store, chosen, private=design.clipped, accept_noise=request.accept_noise
    )
    _ask_ledger(request, store, design)
    solving = release_needs(design, chosen, sumstats=sumstats)
    summed, aligned = _finished_stages(work_dir, bucket)
    sums, rows = None, None
    if summed:
        _refuse_other_design(known, design, work_dir)
    else:
        sums = _sum_needs(store, design, request, work_dir, solving)
    if release is not None:
        refuse_small_memory(solving)
    if not (summed or aligned):
        rows = read_outcomes(
            store.samples,
            OutcomeFiles(request.pheno, request.covar),
            coding,
            scratch=None if dry_run else work_dir,
            n_covariates=len(coding.covariates) - (0 if loadings is None else len(loadings.bounds)),
            to_adjust=design.clipped,
            people_file=store.people_file,
        )
    return Plan(request, store, design, panels, release, accuracy, sums, rows)


def prepare_release(request: FinalizeRequest) -> PlannedRelease:
    """Return the plan of a release of finished statistics, unless it is refused."""
    design = load_design(request.work_dir / work_directory.DESIGN)
    store = open_genotype_store(parse_location(design.genotype_store))
    _refuse_other_guarantee(design, request)
    panel, private = open_panel(design, store.variants), not request.non_private
    release = _planned_release(design, request, store, panel, private=private)
    _expected_accuracy(
        design, store, release.chosen, private=private, accept_noise=request.accept_noise
    )
    if private and design.guarantee is not None:
        announce_opening(store, design.guarantee, request)
    refuse_small_memory(release_needs(design, release.chosen, sumstats=request.sumstats))
    return release


def _genotypes(request: AccumulateRequest) -> GenotypeStore:
    """Return the store of the genotypes, or the tables of the one that the ingest will write."""
    if not isinstance(request, ReleaseRequest) or isinstance(request.genotypes, Location):
        return open_genotype_store(request.genotypes)
    destination = request.work_dir / work_directory.GENOTYPES
    return planned_genotypes(request.files, destination, ld_panel=request.ld_panel)


def _check_publishable(variants: VariantTable, outcomes: OutcomeCoding) -> None:
    """Refuse names that no release can carry, before any work is done or any budget spent."""
    phenotypes = [p.name for p in outcomes.phenotypes]
    check_names(variants, phenotypes, [c.name for c in outcomes.covariates])
    pgs_file_stems(phenotypes)


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
    path = NoiseStore(work_dir / work_directory.NOISE).adjustment_path
    if known.adjustment is not None and not path.is_file():
        raise InputError(
            "the adjustment of the phenotypes in the finished statistics is missing",
            where=path,
            remedy="Restore the file, or use another --work-dir, which pays again",
        )
    root = work_directory.store_root(work_dir, design.object_store)
    is_of_this_request(root / work_directory.STATISTICS, known.planned_digest, design.digest)


def _finished_stages(work_dir: Path, bucket: ObjectUrl | None) -> tuple[bool, bool]:
    """Return whether the statistics are summed and whether the outcomes are aligned."""
    if bucket is not None and work_directory.last_claimed(work_dir) != str(bucket):
        return False, False  # the bucket holds nothing of this work directory
    root = work_directory.store_root(work_dir, bucket)
    aligned = is_complete(root / work_directory.OUTCOMES, OUTCOMES_KIND)
    return finished_plan_digest(root / work_directory.STATISTICS) is not None, aligned


# ---- The release ---------------------------------------------------------------------------------


def _planned_release(
    design: Design,
    request: FinalizeRequest,
    store: GenotypeStore,
    panel: LdPanel | None,
    *,
    private: bool,
) -> PlannedRelease:
    """Return the release with its method, public scores and genome build, unless it is refused."""
    variants, chosen = store.variants, choose(design, request, private=private)
    if request.sumstats:
        _refuse_sumstats(design)
    if request.calibrate and not design.held_out:
        raise UsageError(
            "weights are calibrated by people held out, and these statistics have none",
            where="--calibrate",
            remedy="Give --hold-out where the statistics are made, or leave --calibrate out",
        )
    build = request.genome_build or NOT_REPORTED
    if request.genome_build is None:
        LOGGER.warning(
            "tools of the PGS Catalog refuse scoring files without a genome build: give "
            "--genome-build with the build that the positions are in"
        )
    refuse_other_release(request, design, build, private=private)
    priors = read_prior_scores(request.prior_weights, variants, design, build)
    return PlannedRelease(
        design, request, store, replace(chosen, priors=priors), build, private, panel
    )


def _refuse_sumstats(design: Design) -> None:
    """Refuse summary statistics of LD components, and of a coding without public frequencies."""
    if design.components is not None:
        raise UsageError(
            "summary statistics are of single variants, and LD components take their place",
            where="--sumstats",
            remedy="Give --no-ld-components where the statistics are made, or leave it out",
        )
    if design.reference is None:
        raise UsageError(
            "summary statistics need public allele frequencies, which scale the effects",
            where="--sumstats",
            remedy="Give --ref-freq where the statistics are made, or leave --sumstats out",
        )


def _expected_accuracy(
    design: Design,
    store: GenotypeStore,
    chosen: ChosenMethod,
    *,
    private: bool,
    accept_noise: bool,
) -> Forecast | None:
    """Log and return the expected accuracy; refuse a release of noise, unless it is accepted.

    It is None without noise.
    """
    _warn_of_disclosure(design, private=private)
    if not private:
        return None
    mechanism, heritability = mechanism_of(design, chosen), heritability_of(store)
    expected = forecast_release(design, store.variants, mechanism, heritability)
    assumed = ""
    if store.heritability_share < 1:
        assumed = f", of which these variants are taken to have {heritability:.2g},"
    LOGGER.info(
        "forecast: effective sample size about %g of %d; scores are expected to explain %.2g "
        "of the variance of a trait of heritability %g%s in other people, and %.2g without noise "
        "(from public sizes, for effects spread evenly over the variants); %.2g if %.0f%% of the "
        "variants have effects",
        expected.stated_size, design.public_n, expected.r_squared, PRIOR_HERITABILITY, assumed,
        expected.without_noise, expected.sparse, 100 * SPARSE_SHARE,
    )  # fmt: skip
    if expected.is_noise and not accept_noise:
        raise UsageError(
            "the weights of this release would be noise: they are expected to explain too little "
            "of the variance",
            where="--epsilon",
            value=f"R^2 {expected.r_squared:.2g}",
            limit=f"at least {LEAST_USEFUL_R2:g}",
            remedy="Release fewer phenotypes or variants, or of more people, or with a larger "
            "--epsilon; or give --accept-noise to spend the budget on it all the same",
        )
    if expected.is_noise:
        LOGGER.warning("the weights of this release will be noise, as --accept-noise accepts")
    return expected


def _warn_of_disclosure(design: Design, *, private: bool) -> None:
    """Warn of what protects little, and of scores that may predict ancestry."""
    given = design.guarantee
    if private and given is not None and given.epsilon > _LARGEST_EPSILON:
        LOGGER.warning(
            "--epsilon %g is above %g, and promises little: the odds of a statement about one "
            "person change by a factor of at most e^%g (docs/how-to/choose.md)",
            given.epsilon, _LARGEST_EPSILON, given.epsilon,
        )  # fmt: skip
    if design.n_variants <= FEW_VARIANTS:
        LOGGER.warning("%s", few_variants_in_words(design.n_variants))
    if not has_components(covariate.name for covariate in design.outcomes.covariates):
        LOGGER.warning("%s %s", NO_COMPONENTS, COMPONENTS_REMEDY)


def _ask_ledger(request: AccumulateRequest, store: GenotypeStore, design: Design) -> None:
    """Refuse a release that the ledger would not pay for; a stored one needs no payment."""
    given, path = design.guarantee, request.ledger_path
    if given is None:
        return
    refuse_shared_iids(store)
    refuse_unwritable(path, appended=JOURNAL_NAME_BYTES if path.is_file() else NEW_LOG_NAME_BYTES)
    noise_store = NoiseStore(request.work_dir / work_directory.NOISE)
    # A new ledger opens the budget of the release.
    if path.exists() or noise_store.used_charges():
        cost = release_cost(given, design.subsample)
        with Ledger(path, read_only=True) as ledger:
            cohort = paying_cohort_of(ledger, store, request.cohort, given)
            Payer(ledger, cohort, noise_store)  # refuses noise that another ledger paid for
            charge = cohort.request("", given.epsilon, given.delta, cost)
            ledger.check_request(charge, stored_noise=noise_store.charges())
    announce_opening(store, given, request)


# ---- Memory and disk -----------------------------------------------------------------------------


@dataclass(frozen=True)
class ReleaseNeeds:
    """Resources of one release, from public sizes."""

    memory_bytes: int  # beyond that of an idle process, at the moment that needs most
    noisy_bytes: int  # private statistics on the disk of the work directory; 0 without noise
    largest_block: int  # variants in the largest LD block; solving takes its square
    remedy: str  # for a machine with less memory

    @property
    def process_bytes(self) -> int:
        """Peak memory of this process if it makes the release."""
        return max(_PROCESS_BYTES, resident_memory()) + self.memory_bytes


def release_needs(design: Design, chosen: ChosenMethod, *, sumstats: bool = False) -> ReleaseNeeds:
    """Return the needs of a release by the chosen method."""
    layout, method, estimator = design.layout, chosen.method, chosen.estimator
    copies = layout.n_phenotypes if method.gram_per_phenotype else 1
    largest = max(layout.sizes)
    weights = _ENTRY_BYTES * design.n_variants * layout.n_phenotypes
    # LD components are solved as columns of the statistics, and give weights of all variants.
    beside = weights - _ENTRY_BYTES * layout.n_variants * layout.n_phenotypes
    threads, outcomes = min(n_threads(), layout.n_blocks), layout.n_outcomes**2
    tiles = threads * min(largest, TILE) ** 2
    n_scores = 0 if chosen.priors is None else chosen.priors.scores.effects.shape[1]
    effects = _ENTRY_BYTES * layout.n_variants * n_scores
    beside += effects_bytes(layout, design.block_sizes, estimator)
    solving = solve_bytes(layout, method, estimator, n_scores=n_scores) + effects + beside
    solving = max(solving, _choosing_bytes(design))
    publishing = (_WEIGHT_COPIES + _SUMSTATS_COPIES * sumstats) * weights
    publishing += _BYTES_PER_VARIANT * design.n_variants
    drawing = _ENTRY_BYTES * (_TILE_COPIES * tiles + _OUTCOME_GRAM_COPIES * outcomes)
    instead = "smaller LD blocks (--ld-blocks window:N) in a new --work-dir"
    if publishing > solving:
        instead = "fewer phenotypes (--pheno-name)"
    return ReleaseNeeds(
        memory_bytes=max(solving, publishing, drawing),
        noisy_bytes=stored_bytes(layout, gram_copies=copies) if design.clipped else 0,
        largest_block=largest,
        remedy=f"Finalize where there is more memory, or use {instead}",
    )


def refuse_small_memory(needs: ReleaseNeeds) -> None:
    """Refuse a release that needs more memory than this process has and can get."""
    there = available_memory() + resident_memory()
    if needs.process_bytes > there:
        raise ResourceError(
            f"not enough memory to solve blocks of up to {needs.largest_block} variants and to "
            "hold the weights of all phenotypes",
            value=f"{bytes_in_words(there)} there",
            limit=f"{bytes_in_words(needs.process_bytes)} needed",
            remedy=needs.remedy,
        )


def _sum_needs(
    store: GenotypeStore,
    design: Design,
    execution: Execution,
    work_dir: Path,
    release: ReleaseNeeds,
) -> Needs:
    """Log the needs of the sums and of the release after them; refuse a small machine."""
    # Load the table of people now: it stays in the memory that this process is measured to use.
    LOGGER.debug("%d people", len(store.samples.individual))
    root = work_directory.store_root(work_dir, execution.object_store)
    # What an interrupted run left is used again, or deleted before other files are written.
    there: list[Location] = [
        root / work_directory.OUTCOMES,
        root / work_directory.UNADJUSTED,
        root / work_directory.PARTIALS,
        root / work_directory.STATISTICS,
        root / work_directory.SECOND_PARTIALS,
        root / work_directory.DIRECTIONS,
    ]
    components = design.components is not None
    largest = LARGEST_CODE if components else design.genotypes.max_code
    kernel = warmed_up(execution.kernel, largest)
    needs_of = partial(
        needs,
        chunk_shape=store.chunk_shape,
        packing=store.packing,
        kernel=kernel,
        largest_code=largest,
        subsampled=design.subsample is not None,
    )
    first = needs_of(
        default_plan(design.layout, design.n_samples, design.phenotype_step),
        multiplier_columns=multiplier_columns(design.clipping_rule),
        variants=design.block_sizes if components else None,
    )
    sums, later = first, release.noisy_bytes
    if design.rounds == 2:
        second_plan, sizes = _second_plan(design)
        second = needs_of(second_plan, multiplier_columns=1, variants=sizes)
        # Beside the map of every direction, from the codes of its window.
        later += second.partial_bytes + _directions(design) * _window()
        sums = replace(
            first,
            tasks=first.tasks + second.tasks,
            task_bytes=max(first.task_bytes, second.task_bytes),
            worker_bytes=max(first.worker_bytes, second.worker_bytes),
        )
    rows = 2 * design.n_samples * design.outcomes.n_columns
    unadjusted = rows if design.clipped else 0
    if execution.object_store is None:
        # Private statistics and a second round are written after partial sums are deleted.
        disk = first.disk_bytes + unadjusted + max(0, later - first.partial_bytes)
    else:
        in_bucket = bytes_in_words(unadjusted + first.disk_bytes)
        LOGGER.info("pre-flight: %s in %s", in_bucket, execution.object_store)
        # Rows of people are sorted on this disk before they are copied to the bucket.
        disk = max(rows, later)
    if isinstance(store, PlannedGenotypes):
        disk += store_bytes(store.plan, store.plan.n_partitions)
        there.append(store.plan.partial)
    sums = replace(sums, disk_bytes=disk)
    line = check_needs(sums, execution.profile, work_dir, bytes_there=_bytes_below(there))
    LOGGER.info("pre-flight: kernel %s; %s", kernel, line)
    LOGGER.info(
        "pre-flight: noise and weights take %s of memory, for blocks of up to %d variants",
        bytes_in_words(release.process_bytes), release.largest_block,
    )  # fmt: skip
    return sums


def _window() -> int:
    from primo_scale.methods.second_round import LARGEST_WINDOW  # loads the sampler's kernels

    return LARGEST_WINDOW


def _directions(design: Design) -> int:
    """Return the number of directions of a second round: as many as components, for each phenotype.

    The number depends on noisy statistics, and this is more than in releases that were measured.
    """
    return design.layout.n_variants * design.layout.n_phenotypes


def _second_plan(design: Design) -> tuple[SumPlan, tuple[int, ...]]:
    """Return the plan of a second round with the most directions expected, and its windows."""
    from primo_scale.methods.second_round import windows_of

    sizes = tuple(stop - start for start, stop in pairwise(windows_of(design.boundaries)))
    share = _directions(design) / design.n_variants
    boundaries = (0, *accumulate(math.ceil(size * share) for size in sizes))
    layout = BlockLayout(boundaries, 0, design.layout.n_phenotypes)
    return default_plan(layout, design.n_samples, sums_gram=False), sizes


def _choosing_bytes(design: Design) -> int:
    """Return the memory in which the directions of a second round are chosen, or 0 without one."""
    if design.rounds != 2:
        return 0
    covariances = design.n_variants * _window()
    draws = usable_cpus() * _STATES * design.n_variants
    return _ENTRY_BYTES * _ROUND_COPIES * (covariances + draws + _directions(design) * _window())


def _bytes_below(places: Sequence[Location]) -> int:
    """Return the bytes of files in directories of this machine, which need not exist."""
    return sum(
        (Path(directory) / name).stat().st_size
        for path in places
        if isinstance(path, Path)
        for directory, _, names in os.walk(path)
        for name in names
    )
