"""Stages that pack genotype files into a store and copy the store, and the store before them.

`extract_by_prior` chooses the variants that are most important in a public score.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from primo_scale.genotypes import coding, filters, tables
from primo_scale.genotypes import ingest as ingest_plan
from primo_scale.genotypes import store as stores
from primo_scale.genotypes.pandas_plink import PlinkArray
from primo_scale.genotypes.store import HARD_CALLS, GenotypeStore
from primo_scale.methods.linear_algebra import Float64
from primo_scale.panel.ld import LdPanel, open_ld_panel
from primo_scale.publication.texts import CHOICE_BY_SCORE
from primo_scale.run.options import GenotypeFiles
from primo_scale.run.public_inputs import read_public
from primo_scale.run.run_log import LOGGER, about, progress_bar, stage
from primo_scale.storage.locations import Location

_DIGITS = 9  # of a share, so that the share of all variants is 1


@dataclass(frozen=True)
class PlannedGenotypes(GenotypeStore):
    """Tables of the store that an ingest would write. It holds no genotypes yet."""

    plan: ingest_plan.IngestPlan

    @cached_property
    def samples(self) -> tables.SampleTable:
        """People that the filters leave."""
        return self.plan.samples

    @cached_property
    def variants(self) -> tables.VariantTable:
        """Variants that the filters leave."""
        return self.plan.variants

    @property
    def people_file(self) -> str:
        """File of the source that lists the people."""
        return stores.people_file_of([source.path for source in self.plan.sources], "genotypes")

    @cached_property
    def filter_counts(self) -> tuple[filters.FilterCount, ...]:
        """Effects of the filters."""
        return self.plan.filter_counts


def _selection_of(files: GenotypeFiles, ld_panel: tuple[Path, ...] | None) -> filters.Selection:
    """Return the people and variants that take part; `ld_panel` is that of `importance_by`."""
    ranking = None
    if files.extract_by_prior and files.ref_freq and files.top:
        importance = importance_by(files.extract_by_prior, files.ref_freq, ld_panel)
        ranking = CHOICE_BY_SCORE, files.top, importance
    return filters.Selection(
        files.keep, files.remove, files.extract, files.exclude, files.chromosomes,
        files.ref_maf, files.ref_freq, ranking,
    )  # fmt: skip


def planned_genotypes(
    files: GenotypeFiles | PlinkArray, destination: Path, ld_panel: tuple[Path, ...] | None
) -> GenotypeStore:
    """Return the finished store at `destination`, or the tables of the one to be written there.

    The ingest compares a finished store with an array, which has to be read for this.
    """
    if isinstance(files, PlinkArray):
        plan = files.plan(destination)
    else:
        plan = ingest_plan.plan_ingest(
            files.sources, destination, selection=_selection_of(files, ld_panel)
        )
    finished = stores.open_genotype_store(destination) if destination.exists() else None
    request, _ = ingest_plan.recorded_request(plan)
    if request is not None and not isinstance(files, PlinkArray):
        where = plan.partial if finished is None else destination
        ingest_plan.check_same_request(plan, request, where)
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
    with progress_bar("ingest", "partitions") as move:
        if isinstance(files, PlinkArray):
            store = files.ingest(destination, move)
        elif isinstance(planned, PlannedGenotypes):
            store = ingest_plan.carry_out(planned.plan, move)
        else:
            selection = _selection_of(files, ld_panel)
            store = planned or ingest_plan.ingest(
                files.sources,
                destination,
                selection=selection,
                chunk_shape=chunk_shape,
                on_progress=move,
            )
    for count in store.filter_counts:
        LOGGER.info("%s", count, extra=about("filter", asdict(count)))
    notes = store.input_warnings()
    if store.packing is HARD_CALLS and isinstance(files, GenotypeFiles) and files.bfile is None:
        notes.append("hard calls are read; --dosages reads dosages")
    for line in notes:
        LOGGER.info("note: %s", line, extra=about("hazard", {}))
    sizes = {"variants": store.n_variants, "people": store.n_samples}
    LOGGER.debug(
        "%s: %d variants of %d people", destination, store.n_variants, store.n_samples,
        extra=about("genotypes", {"path": destination, **sizes}),
    )  # fmt: skip
    return store


@stage("copy")
def copy_stage(store: GenotypeStore, destination: Location) -> GenotypeStore:
    """Copy a store to another location, or find the finished copy, and return the store there."""
    with progress_bar("copy", "pieces") as move:
        copied = ingest_plan.copy_genotypes(store, destination, on_progress=move)
    LOGGER.info("%s: copied and read back, the same as %s", destination, store.path)
    return copied


# ---- Importance of variants ----------------------------------------------------------------------


def importance_by(
    path: Path, ref_freq: Path, ld_panel: tuple[Path, ...] | None
) -> Callable[[tables.VariantTable], filters.Importance]:
    """Return the function that ranks variants by ``weight^2 2p(1-p)`` of a public score.

    With several scores in the file, the largest importance counts, each score relative to its own
    total. p are public frequencies; a variant without a weight or a frequency has importance 0. A
    public panel tells how much of the scores some variants explain, by LD.
    """
    from primo_scale.evaluation.scores import match_weights  # loads pandas

    def importance(variants: tables.VariantTable) -> filters.Importance:
        """Return the importance of each variant."""
        matched = match_weights(read_public(path, None), variants, may_be_wider=True)
        LOGGER.info("extract_by_prior %s: %s", path, matched.counts.in_words())
        its = variants.select(matched.variants)
        frequency = coding.read_reference_frequencies(ref_freq, its).a1_frequency
        heterozygosity = np.nan_to_num(2 * frequency * (1 - frequency))
        variance = matched.per_allele1**2 * heterozygosity[:, None]
        total = variance.sum(axis=0)
        share = np.divide(variance, total, out=np.zeros_like(variance), where=total > 0)
        values = np.zeros(len(variants))
        values[matched.variants] = share.max(axis=1)
        panel = None if ld_panel is None else open_ld_panel(ld_panel, its)

        def share_of(chosen: tables.Index) -> float:
            part = np.isin(matched.variants, chosen)
            return _share_of_part(part, matched.per_allele1, variance, panel)

        return values, share_of

    return importance


def _share_of_part(
    part: npt.NDArray[np.bool_], weights: Float64, variance: Float64, panel: LdPanel | None
) -> float:
    """Return the squared correlation of the scores' parts on some variants with the scores.

    `variance` is that of each variant's part of a score, by public frequencies, shape (m, l). It is
    the mean over scores, in the people of the panel. A variant that the panel does not have, and
    every one without a panel, counts as independent of all others.
    """
    independent = np.full(len(part), panel is None)
    products = np.zeros((3, weights.shape[1]))  # of the part, of both, of the whole
    if panel is not None:
        independent = panel.rows < 0
        scores = panel.scores(np.hstack([weights * part[:, None], weights]))
        in_part, whole = np.hsplit(scores, 2)
        products += [pair.mean(axis=0) for pair in (in_part**2, in_part * whole, whole**2)]
    shared = variance[independent & part].sum(axis=0)
    products += [shared, shared, variance[independent].sum(axis=0)]
    of_part, of_both, of_whole = products[:, products[2] > 0]
    squared = np.divide(of_both**2, of_part * of_whole, out=of_both * 0, where=of_part > 0)
    return round(float(squared.mean()), _DIGITS) if len(squared) else 0.0
