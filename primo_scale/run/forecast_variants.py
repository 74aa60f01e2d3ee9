"""Sets of variants of a forecast: all of a panel, the best of them, or several copies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from primo_scale.errors import InputError, UsageError
from primo_scale.genotypes.filters import Selection, most_important, select_variants
from primo_scale.genotypes.frequencies import read_reference_frequencies, refuse_few_matches
from primo_scale.genotypes.ld_panel import open_ld_panel
from primo_scale.genotypes.tables import Index, VariantTable, read_bim
from primo_scale.run.design_choices import PublicPanels
from primo_scale.run.forecast_request import ForecastRequest
from primo_scale.run.panel_choices import warn_of_other_population
from primo_scale.run.prior_scores import importance_by


@dataclass(frozen=True, eq=False)
class VariantSet:
    """Variants of a release, their panels, and the share of the heritability that they explain."""

    variants: VariantTable
    panels: PublicPanels
    heritable: float


def variant_sets(request: ForecastRequest) -> Iterator[VariantSet]:
    """Yield the set of every number of variants in a request."""
    table = read_bim(request.ld_panel.with_name(f"{request.ld_panel.name}.bim")).variants
    chosen, _ = select_variants(table, Selection(extract=request.extract))
    variants = table.select(chosen)
    frequencies = read_reference_frequencies(request.ref_freq, variants)
    refuse_few_matches(frequencies)
    panel = open_ld_panel(request.ld_panel, variants)
    warn_of_other_population(panel, frequencies, variants)
    whole = PublicPanels(frequencies, panel)
    importance = None
    if request.extract_by_prior is not None:
        importance = importance_by(request.extract_by_prior, request.ref_freq)(variants)
        if not importance.any():
            raise InputError(
                "gives no variant of the panel a weight", where=request.extract_by_prior
            )
    for number in request.variants or (len(variants),):
        if number >= len(variants):
            yield _selected(whole, variants, np.arange(number) % len(variants), 1.0)
            continue
        if importance is None:
            raise UsageError(
                "does not say which variants of the panel to choose",
                where="--variants",
                value=number,
                limit=f"the {len(variants)} variants of the panel, or more",
                remedy="Give --extract-by-prior, or choose them by --extract",
            )
        best = most_important(importance, number)
        share = float(importance[best].sum() / importance.sum())
        yield _selected(whole, variants, best, share)


def _selected(
    whole: PublicPanels, variants: VariantTable, rows: Index, heritable: float
) -> VariantSet:
    """Return the variants at `rows`; a row in a further copy is on a chromosome of its own."""
    frequencies, ld = whole.frequencies, whole.ld
    if frequencies is None or ld is None:
        raise ValueError("a forecast has panels")
    copy = np.arange(len(rows)) // len(variants)
    chromosome = np.array(
        [f"{name}/{number}" for name, number in zip(ld.chromosome[rows], copy, strict=True)],
        dtype=object,
    )
    panels = PublicPanels(
        replace(frequencies, a1_frequency=frequencies.a1_frequency[rows]),
        replace(ld, rows=ld.rows[rows], swapped=ld.swapped[rows], chromosome=chromosome),
    )
    return VariantSet(variants.select(rows), panels, heritable)
