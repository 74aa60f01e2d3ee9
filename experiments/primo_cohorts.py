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
from dataclasses import replace

import numpy as np

from experiments.gaussian_noise import Float64
from experiments.haplotypes import SMALLEST_MINOR_FREQUENCY, Cohort, alleles, centred, cohort_of
from experiments.releases import demo_panel, mosaic_of
from experiments.reproduction import Setting
from primo_scale.simulation.cohort import A1_COPIES, score_people

N_VARIANTS = 25
HIDDEN_UNITS = 50
_MEAN_SEGMENT = 60.0  # variants
_VALUES_AT_A_TIME = 1 << 22
_SEED = 20261123


def draw_cohort(setting: Setting, seed: int) -> Cohort:
    """Draw features, effects and phenotypes; one seed gives the same features for every l.

    The setting names the `features` and the `outcomes`, and gives the people `n` and phenotypes
    `l`.
    """
    n_people, n_phenotypes = int(setting["n"]), int(setting["l"])
    key = (_SEED, seed, n_people)
    features = FEATURES[str(setting["features"])](n_people, np.random.default_rng(key))
    features = centred(features)
    of_outcomes = (*key, n_phenotypes)
    signal = OUTCOMES[str(setting["outcomes"])](n_phenotypes, np.random.default_rng(of_outcomes))

    def parts() -> Iterator[tuple[Float64, Float64]]:
        """Yield features and phenotypes ``signal(x) + N(0, 1)`` of consecutive people."""
        step = max(1, _VALUES_AT_A_TIME // n_phenotypes)
        for start in range(0, n_people, step):
            own = features[start : start + step]
            noise = np.random.default_rng([*of_outcomes, start])
            yield own, signal(own) + noise.standard_normal((len(own), n_phenotypes))

    return cohort_of(features, parts)


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


def genotypes(n_people: int, rng: np.random.Generator) -> Float64:
    """Return allele counts of mosaics of the demo's panel at random common variants."""
    panel = demo_panel()
    frequency = panel.a1_frequency
    common = np.minimum(frequency, 1 - frequency) >= SMALLEST_MINOR_FREQUENCY
    chosen = np.sort(rng.choice(np.flatnonzero(common), N_VARIANTS, replace=False))
    seed = int(rng.integers(0, 2**63))
    mosaic = replace(mosaic_of(panel, seed), mean_segment=_MEAN_SEGMENT)
    copies = np.tile(np.nan_to_num(A1_COPIES), (N_VARIANTS, 1))
    counts = chosen, np.arange(N_VARIANTS), copies
    return score_people(mosaic, range(n_people), counts, N_VARIANTS)


FEATURES: dict[str, Callable[[int, np.random.Generator], Float64]] = {
    "haplotypes": lambda n_people, rng: alleles(n_people, N_VARIANTS, rng),
    "genotypes": genotypes,
    "gaussian": lambda n_people, rng: rng.standard_normal((n_people, N_VARIANTS)),
}
OUTCOMES = {"linear": linear, "perceptron": perceptron}
