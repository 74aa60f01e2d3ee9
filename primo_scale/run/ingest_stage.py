"""Stages that pack genotype files into a store and copy the store, and the store before them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from primo_scale.genotypes.copying import copy_genotypes
from primo_scale.genotypes.filters import FilterCount, Ranking, Selection
from primo_scale.genotypes.ingest import carry_out, ingest
from primo_scale.genotypes.ingest_plan import (
    IngestPlan,
    check_same_request,
    plan_ingest,
    recorded_request,
)
from primo_scale.genotypes.pandas_plink import PlinkArray
from primo_scale.genotypes.store import GenotypeStore, open_genotype_store, people_file_of
from primo_scale.genotypes.tables import SampleTable, VariantTable
from primo_scale.publication.wording import CHOICE_BY_SCORE
from primo_scale.run.progress import count_bar
from primo_scale.run.request import GenotypeFiles
from primo_scale.run.run_log import LOGGER, about, stage
from primo_scale.run.variant_importance import importance_by
from primo_scale.storage.locations import Location


@dataclass(frozen=True)
class PlannedGenotypes(GenotypeStore):
    """Tables of the store that an ingest would write. It holds no genotypes yet."""

    plan: IngestPlan

    @cached_property
    def samples(self) -> SampleTable:
        """People that the filters leave."""
        return self.plan.samples

    @cached_property
    def variants(self) -> VariantTable:
        """Variants that the filters leave."""
        return self.plan.variants

    @property
    def people_file(self) -> str:
        """File of the source that lists the people."""
        return people_file_of([source.path for source in self.plan.sources], "genotypes")

    @cached_property
    def filter_counts(self) -> tuple[FilterCount, ...]:
        """Effects of the filters."""
        return self.plan.filter_counts


def _selection_of(files: GenotypeFiles, ld_panel: tuple[Path, ...] | None) -> Selection:
    """Return the people and variants that take part; `ld_panel` is that of `importance_by`."""
    ranking = None
    if files.extract_by_prior and files.ref_freq and files.top:
        importance = importance_by(files.extract_by_prior, files.ref_freq, ld_panel)
        ranking = Ranking(CHOICE_BY_SCORE, files.top, importance)
    return Selection(
        files.keep, files.remove, files.extract, files.exclude, files.chromosomes,
        files.ref_maf, files.ref_freq, ranking,
    )  # fmt: skip


def planned_genotypes(
    files: GenotypeFiles | PlinkArray,
    destination: Path,
    *,
    ld_panel: tuple[Path, ...] | None = None,
) -> GenotypeStore:
    """Return the finished store at `destination`, or the tables of the one to be written there.

    The ingest compares a finished store with an array, which has to be read for this.
    """
    if isinstance(files, PlinkArray):
        plan = files.plan(destination)
    else:
        plan = plan_ingest(files.sources, destination, selection=_selection_of(files, ld_panel))
    finished = open_genotype_store(destination) if destination.exists() else None
    request, sources = recorded_request(plan)
    if request is not None and not isinstance(files, PlinkArray):
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
        packing=plan.packing,
        plan=plan,
    )


@stage("ingest")
def ingest_stage(
    files: GenotypeFiles | PlinkArray,
    destination: Path,
    *,
    planned: GenotypeStore | None = None,
    ld_panel: tuple[Path, ...] | None = None,
    chunk_shape: tuple[int, int] | None = None,
) -> GenotypeStore:
    """Write the store, or find it finished; log the counts of the filters and the warnings.

    `planned` is the result of `planned_genotypes` for the same files.
    """
    with count_bar("ingest", "partitions") as move:
        if isinstance(files, PlinkArray):
            store = files.ingest(destination, move)
        elif isinstance(planned, PlannedGenotypes):
            store = carry_out(planned.plan, move)
        else:
            selection = _selection_of(files, ld_panel)
            store = planned or ingest(
                files.sources,
                destination,
                selection=selection,
                chunk_shape=chunk_shape,
                on_progress=move,
            )
    for count in store.filter_counts:
        LOGGER.info("%s", count, extra=about("filter", asdict(count)))
    for line in [*filter(None, [store.remark]), *store.input_warnings.lines()]:
        LOGGER.info("note: %s", line, extra=about("hazard", {}))
    sizes = {"variants": store.n_variants, "people": store.n_samples}
    LOGGER.info(
        "%s: %d variants of %d people", destination, store.n_variants, store.n_samples,
        extra=about("genotypes", {"path": destination, **sizes}),
    )  # fmt: skip
    return store


@stage("copy")
def copy_stage(store: GenotypeStore, destination: Location) -> GenotypeStore:
    """Copy a store to another location, or find the finished copy, and return the store there."""
    with count_bar("copy", "pieces") as move:
        copied = copy_genotypes(store, destination, on_progress=move)
    LOGGER.info("%s: copied and read back, the same as %s", destination, store.path)
    return copied
