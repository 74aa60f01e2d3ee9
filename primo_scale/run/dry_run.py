"""What a run needs of this machine, and the genotypes it will have, before anything is read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from primo_scale.accumulation.checkpoint import partial_bytes
from primo_scale.accumulation.clipping_rules import may_clip, multiplier_columns
from primo_scale.accumulation.plan import default_plan
from primo_scale.accumulation.resource_needs import (
    Needs,
    Where,
    described,
    disk_bytes,
    expected_seconds,
    needs_of,
    refuse_if_too_small,
)
from primo_scale.accumulation.speed import measure_rates
from primo_scale.accumulation.task_memory import Workload
from primo_scale.cluster.profile import LocalProfile, ThreadsProfile, worker_memory
from primo_scale.genotypes.ingest_plan import (
    IngestPlan,
    check_same_request,
    plan_ingest,
    recorded_request,
)
from primo_scale.genotypes.store import GenotypeStore, open_genotype_store
from primo_scale.genotypes.tables import SampleTable, VariantTable
from primo_scale.humanize import bytes_in_words
from primo_scale.kernels.choice import warmed_up
from primo_scale.kernels.packed import packed_width
from primo_scale.machine import usable_cpus
from primo_scale.run.design import Design
from primo_scale.run.execution import Execution
from primo_scale.run.log_records import LOGGER
from primo_scale.run.release_directory import refuse_unwritable
from primo_scale.run.release_memory import ReleaseNeeds, memory_line
from primo_scale.run.request_parts import GenotypeFiles
from primo_scale.run.work_directory import work_places
from primo_scale.storage.files import make_private_directory
from primo_scale.storage.locations import Location


@dataclass(frozen=True)
class PlannedGenotypes(GenotypeStore):
    """The store that an ingest would write, as far as its tables go: it holds no genotypes yet."""

    plan: IngestPlan

    @cached_property
    def samples(self) -> SampleTable:
        """People that the filters leave."""
        return self.plan.samples

    @cached_property
    def variants(self) -> VariantTable:
        """Variants that the filters leave."""
        return self.plan.variants


def genotypes_to_come(files: GenotypeFiles, destination: Path) -> GenotypeStore:
    """Return the finished store at `destination`, or the tables of the store to be written there.

    Reads .bim and .fam and the lists of the filters, and of a .bed its size and first bytes.

    Parameters
    ----------
    files
        Filesets and filters.
    destination
        Location of the store.

    Raises
    ------
    InputError
        The files are refused as in an ingest.
    """
    plan = plan_ingest(files.bfile, destination, selection=files.selection)
    finished = open_genotype_store(destination) if destination.exists() else None
    request, sources = recorded_request(plan)
    if request is not None:
        where = plan.partial if finished is None else destination
        check_same_request(plan, request, sources, where)
    if finished is not None:
        return finished
    return PlannedGenotypes(
        path=destination,
        n_samples=len(plan.sample_index),
        n_variants=len(plan.variant_index),
        chunk_shape=plan.chunk_shape,
        identity_digest="",  # of contents that were not read
        cohort_digest=plan.cohort_digest,
        plan=plan,
    )


@dataclass(frozen=True)
class SummationForecast:
    """Forecast of an accumulation. PRIVATE: it tells the number of people.

    Attributes
    ----------
    needs
        Tasks, memory and disk.
    kernel
        Name of the product kernel.
    seconds
        Predicted time on the cores of this machine, or on one such core where others compute.
    """

    needs: Needs
    kernel: str
    seconds: float


def preflight(
    store: GenotypeStore,
    design: Design,
    execution: Execution,
    work_dir: Path,
    release: ReleaseNeeds,
) -> SummationForecast:
    """Log what the accumulation and a release need, and refuse an accumulation without it.

    Raises
    ------
    ResourceError
        Too little disk or memory.
    UsageError
        This machine cannot run the kernel asked for.
    """
    work = workload(design, store.chunk_shape, execution.kernel)
    # The table of people, needed soon and then kept, is part of what this process is said to hold.
    LOGGER.debug("%d people", len(store.samples.individual))
    rates = measure_rates(execution.kernel, work.largest_code)
    needs = needs_of(work)
    if isinstance(store, PlannedGenotypes):
        genotypes = store.n_variants * packed_width(store.n_samples)
        needs = replace(needs, disk_bytes=needs.disk_bytes + genotypes)
    more = _more_disk(work, execution, release.noisy_bytes)
    needs = replace(needs, disk_bytes=needs.disk_bytes + more)
    profile, places = execution.profile, work_places(work_dir, execution.object_store)
    # Of an interrupted run. Statistics that it left unfinished are deleted before others are
    # written, so that their room is free.
    there = [places.outcomes, places.partials, places.statistics]
    if isinstance(store, PlannedGenotypes):
        there.append(store.plan.partial)
    local = profile if isinstance(profile, LocalProfile) else None
    where = Where(
        threads=profile.threads if isinstance(profile, ThreadsProfile) else 0,
        local_workers=0 if local is None else local.workers or usable_cpus(),
        worker_limit=worker_memory(profile),
        work_dir=work_dir,
        bytes_there=_bytes_below(there),
    )
    for line in described(needs, work, rates, where):
        LOGGER.info("%s", line)
    LOGGER.info("%s", memory_line(release))
    refuse_if_too_small(needs, where)
    return SummationForecast(needs, work.kernel, expected_seconds(work, rates, where))


def _more_disk(work: Workload, execution: Execution, noisy: int) -> int:
    """Bytes beyond `disk_bytes` that the work directory takes, or in a bucket does not.

    Private statistics are written beside the exact ones, when partial sums are gone.
    """
    if execution.object_store is None:
        return max(0, noisy - partial_bytes(work))
    there = disk_bytes(work)
    LOGGER.info("pre-flight: %s in %s", bytes_in_words(there), execution.object_store)
    # Rows of people are put in order on this disk before they go there.
    ordered = 2 * work.plan.n_samples * work.plan.layout.n_outcomes
    return max(ordered, noisy) - there


def workload(design: Design, chunk_shape: tuple[int, int], kernel: str) -> Workload:
    """What the accumulation of a design takes, on this machine's kernels, compiled here if new."""
    genotypes, rule = design.genotypes, design.clipping_rule
    largest = genotypes.max_code
    return Workload(
        plan=default_plan(design.layout, design.n_samples),
        kernel=warmed_up(kernel, largest),
        largest_code=largest,
        chunk_shape=chunk_shape,
        may_clip=may_clip(rule, genotypes.code_table, design.boundaries),
        multiplier_columns=multiplier_columns(rule),
        subsampled=design.subsample is not None,
    )


def check_work_dir(work_dir: Path) -> None:
    """Refuse a work directory that a run would refuse, without making one.

    Raises
    ------
    InputError
        It is open to others, or cannot be made.
    """
    if work_dir.exists():
        make_private_directory(work_dir)
        return
    refuse_unwritable(work_dir)


def _bytes_below(places: Sequence[Location]) -> int:
    """Bytes of the files in some directories, which need not exist; what is elsewhere is none."""
    return sum(
        (Path(directory) / name).stat().st_size
        for path in places
        if isinstance(path, Path)
        for directory, _, names in os.walk(path)
        for name in names
    )
