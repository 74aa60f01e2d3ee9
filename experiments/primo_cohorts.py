"""Cohorts of PRIMO's experiments, with what stands for data that are not available.

==================  ===================================================  ==========================
in the paper        here                                                 name
==================  ===================================================  ==========================
1000 Genomes        haplotypes from the neutral coalescent               ``haplotypes``
dbGaP, and a GAN    mosaics of 343 real Europeans of the 1000 Genomes    ``genotypes``
trained on dbGaP    Project: diploid genotypes at random variants
Gaussian features   independent standard normal features                 ``gaussian``
==================  ===================================================  ==========================

Phenotypes of people are drawn in parts, each from its own seed, and drawn again in every pass, so
that n x l values are never in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from experiments.gaussian_noise import Float64
from experiments.haplotypes import SMALLEST_MINOR_FREQUENCY, Cohort, alleles, centred, cohort_of
from experiments.releases import demo_panel
from primo_scale.simulation.mosaic import GenotypeScores, Mosaic, score_people
from primo_scale.simulation.panel import A1_COPIES

N_VARIANTS = 25
HIDDEN_UNITS = 50
_MEAN_SEGMENT = 60.0  # variants, as in the demo
_VALUES_AT_A_TIME = 1 << 22
_SEED = 20261123


@dataclass(frozen=True)
class CohortSettings:
    """Names of the features and of the outcomes, people n, and phenotypes l."""

    features: str
    outcomes: str
    n_people: int
    n_phenotypes: int


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Phenotypes ``signal(x) + N(0, 1)`` of people, in parts.

    `signal` is a function from features, shape (m, d), to the expected phenotypes, shape (m, l).
    """

    features: Float64
    signal: Callable[[Float64], Float64]
    n_phenotypes: int
    seed: tuple[int, ...]

    def __call__(self) -> Iterator[tuple[Float64, Float64]]:
        """Yield features and phenotypes of consecutive people."""
        step = max(1, _VALUES_AT_A_TIME // self.n_phenotypes)
        for start in range(0, len(self.features), step):
            own = self.features[start : start + step]
            noise = np.random.default_rng([*self.seed, start])
            yield own, self.signal(own) + noise.standard_normal((len(own), self.n_phenotypes))


def draw_cohort(settings: CohortSettings, seed: int) -> Cohort:
    """Draw features, effects and phenotypes; one seed gives the same features for every l."""
    key = (_SEED, seed, settings.n_people)
    features = centred(FEATURES[settings.features](settings.n_people, np.random.default_rng(key)))
    rng = np.random.default_rng([*key, settings.n_phenotypes])
    signal = OUTCOMES[settings.outcomes](settings.n_phenotypes, rng)
    outcomes = Outcomes(features, signal, settings.n_phenotypes, (*key, settings.n_phenotypes))
    return cohort_of(features, outcomes)


def linear(n_phenotypes: int, rng: np.random.Generator) -> Callable[[Float64], Float64]:
    """Return ``x . theta_j`` with the paper's ``theta_j ~ N(0, I_d / sqrt(d))``."""
    theta = N_VARIANTS**-0.25 * rng.standard_normal((N_VARIANTS, n_phenotypes))
    return lambda features: features @ theta


def perceptron(n_phenotypes: int, rng: np.random.Generator) -> Callable[[Float64], Float64]:
    """Return a random network of two layers with ReLU, centred for standard normal features.

    The paper does not describe its network. The hidden layer is shared by all outcomes, and the
    variance of the output is about that of `linear`.
    """
    hidden = rng.standard_normal((N_VARIANTS, HIDDEN_UNITS)) / math.sqrt(N_VARIANTS)
    mean = np.linalg.norm(hidden, axis=0) / math.sqrt(2 * math.pi)  # E max(0, N(0, s^2))
    kept = 0.5 - 0.5 / math.pi  # variance of max(0, N(0, 1))
    scale = math.sqrt(math.sqrt(N_VARIANTS) / (HIDDEN_UNITS * kept))
    output = scale * rng.standard_normal((HIDDEN_UNITS, n_phenotypes))
    return lambda features: (np.maximum(features @ hidden, 0) - mean) @ output


def haplotypes(n_people: int, rng: np.random.Generator) -> Float64:
    """Return 0/1 alleles of unlinked variants of the neutral coalescent."""
    return alleles(n_people, N_VARIANTS, rng)


def genotypes(n_people: int, rng: np.random.Generator) -> Float64:
    """Return allele counts of mosaics of the demo's panel at random common variants."""
    panel = demo_panel()
    frequency = panel.a1_frequency
    common = np.minimum(frequency, 1 - frequency) >= SMALLEST_MINOR_FREQUENCY
    chosen = np.sort(rng.choice(np.flatnonzero(common), N_VARIANTS, replace=False))
    n_panel = len(panel.variants)
    mosaic = Mosaic(
        codes=panel.codes,
        panel_row=np.arange(n_panel, dtype=np.int32),
        chromosome_starts=np.arange(n_panel) == 0,
        mean_segment=_MEAN_SEGMENT,
        missing_rate=0.0,
        seed=int(rng.integers(0, 2**63)),
    )
    copies = np.tile(np.nan_to_num(A1_COPIES), (N_VARIANTS, 1))
    counts = GenotypeScores(chosen, np.arange(N_VARIANTS), copies)
    return score_people(mosaic, range(n_people), counts, N_VARIANTS)


def gaussian(n_people: int, rng: np.random.Generator) -> Float64:
    """Return independent standard normal features."""
    return rng.standard_normal((n_people, N_VARIANTS))


FEATURES = {"haplotypes": haplotypes, "genotypes": genotypes, "gaussian": gaussian}
OUTCOMES = {"linear": linear, "perceptron": perceptron}
