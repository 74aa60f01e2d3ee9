"""Statistics of many simulated people with real LD, for experiments.

People are mosaics of the demo's public panel (`primo_scale.simulation.mosaic`) at neighbouring
variants, coded and clipped by the product's public rules, in floats where the product uses
integers. LD ends at the block boundaries, where every person starts a new panel member, so the
experiments do not measure the cost of cutting real LD. Effects are normal on the product's codes
and give every phenotype exactly the requested heritability in the population. The population has a
closed-form covariance, so the R^2 of any weights in people outside the cohort is exact and has no
sampling error of a test set.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from experiments.gaussian_noise import Float64
from experiments.releases import DEMO, demo_panel
from primo_scale.genotypes.coding import (
    GenotypeCoding,
    block_row_norms,
    default_row_norm,
    reference_coding,
)
from primo_scale.genotypes.frequencies import read_reference_frequencies
from primo_scale.kernels.packed import decode, packed_width
from primo_scale.simulation.mosaic import Mosaic, genotype_slabs

HERITABILITY = 0.3
_MEAN_SEGMENT = 60.0  # variants, as in the demo
_PEOPLE_AT_A_TIME = 4 * 4096


@dataclass(frozen=True, eq=False)
class Population:
    """Parameters of the population of a cohort; the seed of `mosaic` draws the people.

    `boundaries` are those of equally wide LD blocks, `mean` and `covariance` are those of the coded
    genotypes, and `effects`, shape (d, l), are in standard deviations of each phenotype per unit of
    a coded genotype. `row_norm` is the bound N_x, by default that of the product.
    """

    mosaic: Mosaic
    coding: GenotypeCoding
    boundaries: tuple[int, ...]
    mean: Float64
    covariance: Float64
    effects: Float64
    row_norm: int

    @property
    def block_norms(self) -> tuple[int, ...]:
        """Default block bounds beta_b of the product."""
        return block_row_norms(self.coding, self.boundaries)

    def r_squared(self, weights: Float64) -> float:
        """Return the R^2 in people outside the cohort, averaged over phenotypes.

        ``1 - E[(y - x'w)^2] / Var(y)`` with x and y centred on the population; y has variance 1.
        """
        response = self.covariance @ weights
        explained = (2 * self.effects * response - weights * response).sum(axis=0)
        return float(explained.mean())


@dataclass(frozen=True, eq=False)
class ClippedStatistics:
    """Exact X'X by block and X'Y, shape (d, l), of clipped people; phenotypes in sds."""

    grams: list[Float64]
    cross: Float64


def draw_population(
    n_variants: int, n_blocks: int, n_phenotypes: int, rng: np.random.Generator
) -> Population:
    """Draw neighbouring variants of the panel, and effects."""
    panel = demo_panel()
    first = int(rng.integers(0, len(panel.variants) - n_variants + 1))
    window = np.arange(first, first + n_variants)
    boundaries = tuple(np.linspace(0, n_variants, n_blocks + 1).astype(int).tolist())
    variants = panel.variants.select(window)
    coding = reference_coding(read_reference_frequencies(Path(f"{DEMO}.afreq"), variants))
    mosaic = Mosaic(
        codes=panel.codes[window],
        panel_row=np.arange(n_variants, dtype=np.int32),
        chromosome_starts=np.isin(np.arange(n_variants), boundaries),
        mean_segment=_MEAN_SEGMENT,
        missing_rate=0.0,
        seed=int(rng.integers(0, 2**63)),
    )
    members = np.take_along_axis(coding.code_table, mosaic.codes, axis=1).astype(np.float64)
    gaps = np.abs(np.subtract.outer(np.arange(n_variants), np.arange(n_variants)))
    block = np.searchsorted(boundaries, np.arange(n_variants), side="right")
    together = np.equal.outer(block, block) * (1 - 1 / _MEAN_SEGMENT) ** gaps
    covariance = np.cov(members, ddof=0) * together
    effects = rng.standard_normal((n_variants, n_phenotypes))
    effects *= np.sqrt(HERITABILITY / (effects * (covariance @ effects)).sum(axis=0))
    mean, row_norm = members.mean(axis=1), default_row_norm(coding)
    return Population(mosaic, coding, boundaries, mean, covariance, effects, row_norm)


def clipped_statistics(
    population: Population,
    n_people: int,
    *,
    phenotype_bound: float,
    by_block: bool,
    rng: np.random.Generator,
) -> ClippedStatistics:
    """Draw people, code, clip and sum them.

    `phenotype_bound` is By in standard deviations, `by_block` says whether rows are also clipped in
    every LD block, and `rng` draws the residuals.
    """
    mosaic = population.mosaic
    slabs = genotype_slabs(
        mosaic,
        n_people,
        people_per_stripe=_PEOPLE_AT_A_TIME,
        slab_bytes=mosaic.n_variants * packed_width(_PEOPLE_AT_A_TIME),  # all variants at once
    )
    pairs = list(zip(population.boundaries[:-1], population.boundaries[1:], strict=True))
    grams = [np.zeros((stop - start, stop - start)) for start, stop in pairs]
    cross = np.zeros(population.effects.shape)
    for slab in slabs:
        count = min(_PEOPLE_AT_A_TIME, n_people - slab.first_person)
        codes = decode(slab.packed, population.coding.code_table, count)
        x = np.ascontiguousarray(codes.T, dtype=np.float32)
        y = x @ population.effects.astype(np.float32) - population.mean @ population.effects
        y += math.sqrt(1 - HERITABILITY) * rng.standard_normal(y.shape)
        y *= _clip_genotypes(x, population, by_block=by_block)[:, None]
        norms = np.maximum(np.sqrt((y**2).sum(axis=1)), 1e-30)
        y *= np.minimum(1, phenotype_bound / norms)[:, None]
        cross += x.T @ y.astype(np.float32)
        for gram, (begin, end) in zip(grams, pairs, strict=True):
            gram += x[:, begin:end].T @ x[:, begin:end]
    return ClippedStatistics(grams, cross)


def _clip_genotypes(
    x: npt.NDArray[np.float32], population: Population, *, by_block: bool
) -> npt.NDArray[np.float32]:
    """Clip rows in place, as the product does, and return the multipliers."""
    if by_block:
        ends = zip(population.boundaries[:-1], population.boundaries[1:], strict=True)
        for (begin, end), norm in zip(ends, population.block_norms, strict=True):
            x[:, begin:end] *= _multipliers(x[:, begin:end], norm)[:, None]
    record = _multipliers(x, population.row_norm)
    x *= record[:, None]
    return record


def _multipliers(x: npt.NDArray[np.float32], norm: int) -> npt.NDArray[np.float32]:
    squared = np.maximum(np.einsum("ij,ij->i", x, x), 1e-30)
    return np.asarray(np.minimum(1, np.sqrt(norm / squared)), np.float32)
