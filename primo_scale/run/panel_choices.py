"""Choice of the LD components of a design, from a public panel and public sizes."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np

from primo_scale.errors import UsageError
from primo_scale.genotypes.coding import GenotypeCoding
from primo_scale.genotypes.frequencies import MatchedFrequencies
from primo_scale.genotypes.ld_components import (
    LARGEST_STANDARD_DEVIATION,
    LdComponents,
    component_map,
    write_components,
)
from primo_scale.genotypes.ld_panel import LdPanel, fixation_index
from primo_scale.genotypes.panel_spectrum import components, variances_outside
from primo_scale.genotypes.store import GenotypeStore
from primo_scale.genotypes.tables import VariantTable
from primo_scale.kernels.rows import LARGEST_OUTPUT
from primo_scale.methods.blended_gram import blended
from primo_scale.privacy.accuracy import Components
from primo_scale.privacy.mechanism import Mechanism, Recipe
from primo_scale.privacy.planning import PRIOR_HERITABILITY, Floats, clipped_phenotype
from primo_scale.privacy.water_filling import fill
from primo_scale.run.design import Budget, ComponentDesign, Design, PanelDesign, read_choices
from primo_scale.run.request_parts import Model
from primo_scale.run.run_log import LOGGER
from primo_scale.storage.files import sha256_of_json
from primo_scale.storage.locations import Location

LARGEST_BLOCK = 2048
"""Largest number of variants of a block that components can replace: one tile of X'X."""
_LEAST_VARIANCE = 0.01  # of a component, relative to the mean of a variant
_VERSION = 2  # of the components and their order, for work directories of an earlier one
_AGAIN = "Remove it, and run the same command again, which writes it anew"
_EIGENVALUES = 4096  # values that describe the spectrum
# F_ST is about .01 between Finns and Tuscans of the 1000 Genomes Project, .03 between Europeans and
# Gujaratis, and .05 between Europeans and Africans, of the thinned HapMap3 data in tests/reference.
_LARGEST_INDEX, _EXAMPLES = 0.02, 3
_FIRST_ROUND_SIGNAL = 4.0
_TELLING = 0.1  # distance of a frequency from a half that tells which allele is counted


@dataclass(frozen=True)
class _Base:
    """Public numbers of the same release without components, which the division depends on."""

    shared: float  # number of phenotypes whose effects add up in a genetic factor, 1 without any
    signal: float  # that many times n h2 c^2, of a component with all of the variance
    residual: float  # variance v of a clipped phenotype
    noise: float  # variance that noise adds to a phenotype in a column with all of the variance


def warn_of_other_population(
    panel: LdPanel, frequencies: MatchedFrequencies, variants: VariantTable
) -> None:
    """Warn if the LD panel and the allele frequencies are of different populations."""
    of_panel = panel.a1_frequencies()
    index = fixation_index(of_panel, panel.n_people, frequencies.a1_frequency)
    if index <= _LARGEST_INDEX:
        return
    gaps = np.nan_to_num(np.abs(of_panel - frequencies.a1_frequency))
    examples = (
        f"{variants.identifier[row]} ({of_panel[row]:.2f} and {frequencies.a1_frequency[row]:.2f})"
        for row in np.argsort(-gaps)[:_EXAMPLES]
    )
    LOGGER.warning(
        "--ld-panel and --ref-freq are of different populations: F_ST is %.3f, and below %g within "
        "a continent; frequencies differ most at %s. Give both for the population of the cohort, "
        "or the release is less accurate (docs/methods.md); its guarantee is the same",
        index, _LARGEST_INDEX, ", ".join(examples),
    )  # fmt: skip


def warn_of_other_alleles(store: GenotypeStore, frequencies: MatchedFrequencies) -> None:
    """Warn if the cohort's own frequencies do not fit those of the panel. PRIVATE: of the cohort.

    They do not where allele 1 and allele 2 are exchanged, and in another population.
    """
    own, other = store.a1_frequencies(), frequencies.a1_frequency
    if own is None:
        return
    index = fixation_index(own, store.n_samples, other)
    if index <= _LARGEST_INDEX:
        return
    tell = np.abs(other - 0.5) > _TELLING
    exchanged = np.abs(own - other)[tell] > np.abs(1 - own - other)[tell]
    LOGGER.warning(
        "the genotypes do not have the frequencies of --ref-freq: F_ST is %.3f, and below %g "
        "within a continent; %d of %d variants fit the frequency of their other allele better. "
        "Where most do, allele 1 and allele 2 of the genotype files are exchanged, and scores "
        "predict the opposite; otherwise give --ref-freq for the population of the cohort",
        index, _LARGEST_INDEX, exchanged.sum(), tell.sum(),
    )  # fmt: skip


def _uses_components(model: Model, design: Design) -> bool:
    """Return whether LD components take the place of the variants of a design."""
    if not model.ld_components or design.subsample is not None:
        return False
    remedy = "Leave it out, or give --no-ld-components"
    if model.row_norm is not None:
        raise UsageError("is a bound on rows of variants", where="--row-norm", remedy=remedy)
    if max(design.block_sizes) > LARGEST_BLOCK:
        raise UsageError(
            "LD components need smaller LD blocks",
            where="--ld-blocks",
            value=f"{max(design.block_sizes)} variants",
            limit=f"{LARGEST_BLOCK} variants",
            remedy="Leave it out, which gives the blocks of --ld-panel, or add --no-ld-components",
        )
    return True


def design_panel(
    panel: LdPanel, design: Design, budget: Budget, model: Model, *, settled: Path | None
) -> PanelDesign:
    """Return the LD of a design by a panel, and its components if the model uses them.

    The choices in the document `settled`, if there is one, are used if they belong to the same
    request, because the last bits of an eigenvalue may differ between machines.
    """
    use_components, n_factors = _uses_components(model, design), model.genetic_factors
    request = sha256_of_json(
        {
            "version": _VERSION,
            "panel": panel.sha256,
            "components": use_components,
            "design": design.digest,
            "budget": asdict(budget),
        }
        | ({} if n_factors is None else {"factors": n_factors})
    )
    if settled is not None and settled.is_file():
        found = read_choices(settled, PanelDesign, remedy=_AGAIN)
        if found.request == request:
            return found
    measured = _variances(panel, design.genotypes, design.boundaries)
    found = PanelDesign(
        file=panel.name,
        sha256=panel.sha256,
        request=request,
        n_people=panel.n_people,
        boundaries=design.boundaries,
        eigenvalues=_summary(np.concatenate(measured)),
        components=None,
    )
    if not use_components:
        return found
    return _with_components(found, measured, design, budget, _base(design, budget, n_factors))


def _with_components(
    panel: PanelDesign, blocks: tuple[Floats, ...], design: Design, budget: Budget, base: _Base
) -> PanelDesign:
    """Return the panel with the components of a design.

    They are chosen twice. Errors of X'X with the components of the first choice count as noise on
    X'Y in the second one.
    """
    first = replace(panel, components=_component_design(blocks, design, base))
    with_first = with_panel(design, first)
    mechanism = with_first.mechanism(budget, Recipe())
    errors = errors_of_gram(with_first, mechanism, PRIOR_HERITABILITY)
    added = base.shared * float(errors.mean()) / mechanism.scales.phenotype_cross**2
    base = replace(base, noise=base.noise * (1 + added))
    return replace(panel, components=_component_design(blocks, design, base))


def write_maps(path: Location, panel: LdPanel, design: Design) -> LdComponents:
    """Compute and write the maps of the components of a design, unless they are there."""
    chosen = design.components
    if design.panel is None or chosen is None:
        raise ValueError("the design has no components")
    cuts = chosen.boundaries[1:-1]
    rows = np.split(chosen.chosen.astype(np.intp), cuts)
    vectors = components(panel, design.genotypes, design.boundaries, rows)
    scales = np.split(np.sqrt(chosen.squared_norms), cuts)
    maps = map(component_map, vectors, scales)
    return write_components(path, design.panel.request, maps)


def component_shares(design: Design) -> Components | None:
    """Return the LD components of a design as the forecasts and the choice of a clip need them.

    A design without components has None. The variance in the panel can exceed that by public
    frequencies; shares then still sum to 1.
    """
    columns = design.components
    if columns is None:
        return None
    shares = columns.variances / (columns.squared_norms * design.genotypes.variance)
    shares /= max(1.0, float(shares.sum()))
    return Components(shares, columns.variances, design.n_variants)


def errors_of_gram(design: Design, mechanism: Mechanism, heritability: float) -> Floats:
    """Return the variance that errors of X'X add to the noise on X'Y in each component, shape (m,).

    A design without components has a single 0: `primo_scale.methods.gram_noise` has the cost of the
    noise on X'X to scores of variants.
    Source: docs/maths/ld-components.md, Theorem 3.
    """
    columns = design.components
    if columns is None or design.panel is None:
        return np.zeros(1)
    slope, _ = clipped_phenotype(design.clip, design.layout.n_phenotypes)
    effect_variance = heritability * (slope * design.outcomes.unit) ** 2 / design.genotypes.variance
    variances = []
    for block, sigma in enumerate(mechanism.scales.gram):
        here = design.layout.variants(block)
        expected = design.public_n * columns.variances[here]
        blend = blended(np.diag(expected), sigma, expected, design.panel.known_people)
        squares = effect_variance / columns.squared_norms[here, None]
        variances.append(blend.product_variances(squares)[:, 0])
    return np.concatenate(variances)


@lru_cache(maxsize=1)
def _variances(
    panel: LdPanel, coding: GenotypeCoding, boundaries: tuple[int, ...]
) -> tuple[Floats, ...]:
    """Return `variances_outside` of every block, kept for the next design of the same panel."""
    return tuple(variances_outside(panel, coding, boundaries))


def _base(design: Design, budget: Budget, n_factors: int | None) -> _Base:
    """Return the signal, residual and noise of one phenotype that a component competes with."""
    n_phenotypes = design.layout.n_phenotypes
    sigma = design.mechanism(budget, Recipe()).scales.phenotype_cross
    per_person = design.public_n * design.genotypes.variance * design.outcomes.unit**2
    slope, residual = clipped_phenotype(design.clip, n_phenotypes)
    shared = n_phenotypes / min(n_factors or n_phenotypes, n_phenotypes)
    # The first of two rounds looks for effects of which many are zero, and some large.
    wider = _FIRST_ROUND_SIGNAL if design.rounds == 2 else 1.0
    return _Base(
        shared=shared,
        signal=design.public_n * PRIOR_HERITABILITY * slope**2 * shared * wider,
        residual=residual,
        noise=sigma**2 / per_person,
    )


def _component_design(blocks: tuple[Floats, ...], design: Design, base: _Base) -> ComponentDesign:
    """Divide the norm of a row among the components with the given variances in each block."""
    variances = np.concatenate(blocks)
    shares = np.maximum(variances, 0) / design.genotypes.variance
    useful = shares > 0
    energies = np.zeros(len(shares))
    energies[useful] = fill(shares[useful], base.signal * shares[useful], base.residual, base.noise)
    least = energies[energies > 0].min()
    starts = np.cumsum([0, *map(len, blocks)])
    for start, stop in pairwise(starts):  # every block keeps its largest component
        if not energies[start:stop].any():
            energies[start + np.argmax(shares[start:stop])] = least
    kept = np.flatnonzero(energies)
    # A block whose variants hardly vary in the panel has a component of no measured variance.
    variances = np.maximum(variances, _LEAST_VARIANCE * design.genotypes.variance / len(variances))
    block_of = np.searchsorted(starts, kept, side="right") - 1
    scale = LARGEST_STANDARD_DEVIATION**2 / energies.max()
    return ComponentDesign(
        sizes=tuple(np.bincount(block_of, minlength=len(blocks)).tolist()),
        chosen=(kept - starts[block_of]).astype(np.int32),
        variances=energies[kept] * scale,
        squared_norms=energies[kept] * scale / variances[kept],
    )


def _summary(variances: Floats) -> Floats:
    """Return at most 4,096 means of neighbouring values, in descending order, of mean 1."""
    ordered = np.sort(variances)[::-1]
    width = math.ceil(len(ordered) / _EIGENVALUES)
    padded = np.resize(ordered, width * math.ceil(len(ordered) / width))
    padded[len(ordered) :] = ordered[-1]
    means = padded.reshape(-1, width).mean(axis=1)
    return np.asarray(means / means.mean())


def with_panel(design: Design, panel: PanelDesign | None) -> Design:
    """Return the design with a panel, whose components bring their own bounds on rows."""
    if panel is None or panel.components is None:
        return replace(design, panel=panel)
    columns = panel.components
    total = float(columns.variances.sum())
    starts = columns.boundaries[:-1]
    by_block = np.add.reduceat(columns.variances, starts)
    sizes = np.array(columns.sizes)
    most = LARGEST_OUTPUT**2 * sizes
    norms = np.ceil((1.3 + 8 / np.sqrt(sizes)) * by_block).astype(np.int64)
    return replace(
        design,
        panel=panel,
        row_norm=min(math.ceil(total), int(most.sum())),
        block_norms=tuple(np.minimum(norms, most).tolist()),
    )
