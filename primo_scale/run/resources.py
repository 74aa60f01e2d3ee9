"""Resources that a run needs of this machine, logged and refused before any work or payment."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from primo_scale.accumulation.checkpoint import partial_bytes
from primo_scale.accumulation.clipping_rules import may_clip, multiplier_columns
from primo_scale.accumulation.plan import default_plan
from primo_scale.accumulation.resource_needs import (
    Machines,
    ResourceNeeds,
    described,
    disk_bytes,
    needs_of,
    refuse_if_too_small,
)
from primo_scale.accumulation.speed import expected_seconds, measure_rates
from primo_scale.accumulation.workload import Workload
from primo_scale.cluster.profile import LocalProfile, ThreadsProfile, worker_memory
from primo_scale.errors import ResourceError
from primo_scale.genotypes.coding import LARGEST_CODE
from primo_scale.genotypes.ingest_plan import store_bytes
from primo_scale.genotypes.store import GenotypeStore
from primo_scale.humanize import bytes_in_words
from primo_scale.kernels.product_kernels import warmed_up
from primo_scale.machine import available_memory, resident_memory, usable_cpus
from primo_scale.methods.catalogue import METHODS
from primo_scale.methods.solve_memory import effects_bytes, solve_bytes
from primo_scale.run.design import Design
from primo_scale.run.execution import Execution
from primo_scale.run.ingest_stage import PlannedGenotypes
from primo_scale.run.release_forecast import ChosenMethod
from primo_scale.run.run_log import LOGGER
from primo_scale.run.work_directory import OUTCOMES, PARTIALS, STATISTICS, UNADJUSTED, store_root
from primo_scale.storage.block_matrices import stored_bytes
from primo_scale.storage.locations import Location
from primo_scale.storage.tiles import TILE, n_threads

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
_LEAST_METHOD = METHODS["reuse-cov-gauss"]  # needs the least of all methods


# ---- Release -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReleaseNeeds:
    """Resources of one release, from public sizes."""

    # Memory beyond that of an idle process, at three moments.
    solving_bytes: int
    publishing_bytes: int
    drawing_bytes: int
    noisy_bytes: int  # private statistics on the disk of the work directory; 0 without noise
    largest_block: int  # variants in the largest LD block; solving takes its square

    @property
    def memory_bytes(self) -> int:
        """Peak memory of this process if it makes the release."""
        process = max(_PROCESS_BYTES, resident_memory())
        return process + max(self.solving_bytes, self.publishing_bytes, self.drawing_bytes)


def release_needs(
    design: Design, chosen: ChosenMethod | None, *, sumstats: bool = False
) -> ReleaseNeeds:
    """Return the needs of a release by the chosen method, or the least of all methods."""
    layout, method = design.layout, _LEAST_METHOD if chosen is None else chosen.method
    estimator = method.estimator if chosen is None else chosen.estimator
    copies = layout.n_phenotypes if method.gram_per_phenotype else 1
    largest = max(layout.sizes)
    weights = _ENTRY_BYTES * design.n_variants * layout.n_phenotypes
    # LD components are solved as columns of the statistics, and give weights of all variants.
    beside = weights - _ENTRY_BYTES * layout.n_variants * layout.n_phenotypes
    threads, outcomes = min(n_threads(), layout.n_blocks), layout.n_outcomes**2
    tiles = threads * min(largest, TILE) ** 2
    priors = None if chosen is None else chosen.priors
    n_scores = 0 if priors is None else priors.scores.effects.shape[1]
    effects = _ENTRY_BYTES * layout.n_variants * n_scores
    beside += effects_bytes(layout, design.block_sizes, estimator)
    return ReleaseNeeds(
        solving_bytes=solve_bytes(layout, method, estimator, n_scores=n_scores) + effects + beside,
        publishing_bytes=(_WEIGHT_COPIES + _SUMSTATS_COPIES * sumstats) * weights
        + _BYTES_PER_VARIANT * design.n_variants,
        drawing_bytes=_ENTRY_BYTES * (_TILE_COPIES * tiles + _OUTCOME_GRAM_COPIES * outcomes),
        noisy_bytes=stored_bytes(layout, gram_copies=copies) if design.clipped else 0,
        largest_block=largest,
    )


def refuse_small_memory(needs: ReleaseNeeds) -> None:
    """Refuse a release that needs more memory than this process has and can get."""
    there = available_memory() + resident_memory()
    if needs.memory_bytes <= there:
        return
    if needs.solving_bytes >= needs.publishing_bytes:
        what = f"solve blocks of up to {needs.largest_block} variants"
        instead = "smaller LD blocks (--ld-blocks window:N) in a new --work-dir"
    else:
        what, instead = "hold the weights of all phenotypes", "fewer phenotypes (--pheno-name)"
    raise ResourceError(
        f"not enough memory to {what}",
        value=f"{bytes_in_words(there)} there",
        limit=f"{bytes_in_words(needs.memory_bytes)} needed",
        remedy=f"Finalize where there is more memory, or use {instead}",
    )


# ---- Accumulation --------------------------------------------------------------------------------


@dataclass(frozen=True)
class SummationForecast:
    """Forecast of an accumulation. PRIVATE: it reveals the number of people."""

    needs: ResourceNeeds
    kernel: str  # name
    # Predicted time on the cores of this machine, or on one such core where others compute.
    seconds: float


def forecast_summation(
    store: GenotypeStore,
    design: Design,
    execution: Execution,
    work_dir: Path,
    release: ReleaseNeeds,
) -> SummationForecast:
    """Log the needs of an accumulation and of the release after it; refuse a small machine."""
    work = workload(design, store, execution.kernel)
    # Load the table of people now: it stays in the memory that this process is measured to use.
    LOGGER.debug("%d people", len(store.samples.individual))
    rates = measure_rates(execution.kernel, work.largest_code, work.packing)
    root = store_root(work_dir, execution.object_store)
    # What an interrupted run left is used again, or deleted before other files are written.
    there = [root / OUTCOMES, root / UNADJUSTED, root / PARTIALS, root / STATISTICS]
    needs = needs_of(work)
    more_disk = _more_disk(work, design, execution, release.noisy_bytes)
    if isinstance(store, PlannedGenotypes):
        more_disk += store_bytes(store.plan, store.plan.n_partitions)
        there.append(store.plan.partial)
    needs = replace(needs, disk_bytes=needs.disk_bytes + more_disk)
    profile = execution.profile
    local = profile if isinstance(profile, LocalProfile) else None
    machines = Machines(
        threads=profile.threads if isinstance(profile, ThreadsProfile) else 0,
        local_workers=0 if local is None else local.workers or usable_cpus(),
        worker_limit=worker_memory(profile),
        work_dir=work_dir,
        bytes_there=_bytes_below(there),
    )
    for line in described(needs, work, rates, machines):
        LOGGER.info("%s", line)
    LOGGER.info(
        "pre-flight: noise and weights take %s of memory, for blocks of up to %d variants",
        bytes_in_words(release.memory_bytes), release.largest_block,
    )  # fmt: skip
    refuse_if_too_small(needs, machines)
    return SummationForecast(needs, work.kernel, expected_seconds(work, rates, machines.cores))


def _more_disk(work: Workload, design: Design, execution: Execution, noisy_bytes: int) -> int:
    """Return the bytes that the work directory takes over `disk_bytes`; negative with a bucket."""
    rows = 2 * design.n_samples * design.outcomes.n_columns
    unadjusted = rows if design.clipped else 0
    if execution.object_store is None:
        # Private statistics are written after partial sums are deleted.
        return unadjusted + max(0, noisy_bytes - partial_bytes(work))
    in_bucket = disk_bytes(work)
    LOGGER.info(
        "pre-flight: %s in %s", bytes_in_words(unadjusted + in_bucket), execution.object_store
    )
    # Rows of people are sorted on this disk before they are copied to the bucket.
    return max(rows, noisy_bytes) - in_bucket


def workload(design: Design, store: GenotypeStore, kernel: str) -> Workload:
    """Return the work of an accumulation with this machine's kernel, which is compiled if new."""
    genotypes, rule = design.genotypes, design.clipping_rule
    columns = design.components
    largest = genotypes.max_code if columns is None else LARGEST_CODE
    return Workload(
        plan=default_plan(design.layout, design.n_samples, design.phenotype_step),
        kernel=warmed_up(kernel, largest),
        largest_code=largest,
        chunk_shape=store.chunk_shape,
        may_clip=(
            may_clip(rule, genotypes.code_table, design.boundaries)
            if columns is None
            else rule is not None
        ),
        multiplier_columns=multiplier_columns(rule),
        subsampled=design.subsample is not None,
        variants=None if columns is None else design.block_sizes,
        packing=store.packing,
    )


def _bytes_below(places: Sequence[Location]) -> int:
    """Return the bytes of files in directories of this machine, which need not exist."""
    return sum(
        (Path(directory) / name).stat().st_size
        for path in places
        if isinstance(path, Path)
        for directory, _, names in os.walk(path)
        for name in names
    )
