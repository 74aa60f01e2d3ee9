"""Phenotypes of known heritability for simulated people, and their covariates.

A trait is ``y = g + sqrt(0.05) z + e``, with g the sum of sparse additive effects, z standardised
age, and e Gaussian. Effects are scaled so that the variance of g in the simulated *population*
(`mosaic.population_variance`, from the panel) equals the requested heritability exactly; in a
cohort it varies. In the population y has mean 0 and variance 1. A 0/1 trait marks the people whose
liability, which is drawn like y, exceeds a threshold. Sex has no effect.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from primo_scale.errors import InputError
from primo_scale.genotypes.tables import FEMALE, MALE
from primo_scale.simulation.mosaic import GenotypeScores, Mosaic, population_variance, score_people
from primo_scale.simulation.panel import A1_COPIES

AGE_VARIANCE = 0.05
"""Share of a trait's variance that age explains."""

AGE_YOUNGEST, AGE_OLDEST = 40, 69
"""Range of ages in whole years, with a uniform distribution, as at recruitment to UK Biobank."""

AGE_MEAN = (AGE_YOUNGEST + AGE_OLDEST) / 2
AGE_SD = math.sqrt(((AGE_OLDEST - AGE_YOUNGEST + 1) ** 2 - 1) / 12)

_PEOPLE_PER_SLAB = 8192


@dataclass(frozen=True)
class TraitModel:
    """Parameters of the simulated traits: quantitative ones QT1, QT2, ..., and the 0/1 trait CASE.

    There is no 0/1 trait if its `prevalence` is None. `heritability`, in [0, 0.95], is the variance
    of g of each trait or liability. `causal_fraction`, in (0, 1], is the share of polymorphic
    variants with an effect; at least one variant has one.
    """

    n_quantitative: int
    prevalence: float | None
    heritability: float
    causal_fraction: float

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the traits, the 0/1 trait last."""
        quantitative = tuple(f"QT{k + 1}" for k in range(self.n_quantitative))
        return quantitative if self.prevalence is None else (*quantitative, "CASE")


@dataclass(frozen=True, eq=False)
class Effects:
    """True effects: one entry for each causal variant of each trait, sorted by variant.

    `variant` and `trait` are indices, `a1_frequency` is the frequency of A1 in the panel, and
    `beta` the effect per copy of A1, in standard deviations of the trait.
    """

    variant: npt.NDArray[np.int64]
    trait: npt.NDArray[np.int64]
    a1_frequency: npt.NDArray[np.float64]
    beta: npt.NDArray[np.float64]

    def scores(self) -> GenotypeScores:
        """Return the contribution of each genotype to the genetic value; a missing call adds 0."""
        centred = A1_COPIES - 2 * self.a1_frequency[:, None]
        return GenotypeScores(self.variant, self.trait, np.nan_to_num(centred) * self.beta[:, None])


@dataclass(frozen=True, eq=False)
class PeopleSlab:
    """Consecutive people of a cohort, with their indices.

    `sex` is 1 for male and 2 for female, and `age` is in years. `genetic_value` and `trait`, both
    of shape (people, traits), hold g, and y or 0 and 1.
    """

    people: range
    sex: npt.NDArray[np.int64]
    age: npt.NDArray[np.int64]
    genetic_value: npt.NDArray[np.float64]
    trait: npt.NDArray[np.float64]


def draw_effects(
    mosaic: Mosaic, a1_frequency: npt.NDArray[np.float64], model: TraitModel, *, seed: int
) -> Effects:
    """Draw the causal variants and the effects of every trait.

    Effects are Gaussian on genotypes standardised by the panel's frequencies `a1_frequency`, shape
    (variants,). Two cohorts of one population have the same effects if `model` and `seed` are the
    same; the seed of `mosaic` is not used.
    """
    rng = np.random.default_rng(seed)
    spread = np.sqrt(2 * a1_frequency * (1 - a1_frequency))
    polymorphic = np.flatnonzero(spread)
    if not polymorphic.size:
        raise InputError(
            "the panel has no polymorphic variant, so nothing can be heritable",
            value=f"{len(spread)} monomorphic variants",
            remedy="Give a panel with variation, or simulate no traits",
        )
    n_causal = max(1, round(model.causal_fraction * len(polymorphic)))
    drawn = []
    for trait in range(len(model.names)):
        variant = np.sort(rng.choice(polymorphic, n_causal, replace=False))
        frequency = a1_frequency[variant]
        beta = rng.standard_normal(n_causal) / spread[variant]
        unscaled = Effects(variant, np.full(n_causal, trait), frequency, beta)
        scale = math.sqrt(model.heritability / population_variance(mosaic, unscaled.scores()))
        drawn.append((variant, unscaled.trait, frequency, beta * scale))
    variant, trait_index, frequency, beta = map(np.concatenate, zip(*drawn, strict=True))
    order = np.argsort(variant, kind="stable")
    return Effects(variant[order], trait_index[order], frequency[order], beta[order])


def simulate_people(
    mosaic: Mosaic, n_people: int, model: TraitModel, effects: Effects | None
) -> Iterator[PeopleSlab]:
    """Draw sex, age and traits of people 0 to ``n_people - 1`` of the mosaic's seed, in order.

    `effects` is None if the model has no traits.
    """
    seeds = np.random.SeedSequence(mosaic.seed).spawn(3)
    sexes, ages, residuals = map(np.random.default_rng, seeds)
    residual_sd = math.sqrt(1 - AGE_VARIANCE - model.heritability)
    n_traits = len(model.names)
    for first in range(0, n_people, _PEOPLE_PER_SLAB):
        people = range(first, min(first + _PEOPLE_PER_SLAB, n_people))
        sex = sexes.integers(MALE, FEMALE, len(people), endpoint=True)
        age = ages.integers(AGE_YOUNGEST, AGE_OLDEST, len(people), endpoint=True)
        genetic = np.zeros((len(people), n_traits))
        if effects is not None:
            genetic = score_people(mosaic, people, effects.scores(), n_traits)
        age_effect = math.sqrt(AGE_VARIANCE) * (age - AGE_MEAN) / AGE_SD
        noise = residual_sd * residuals.standard_normal(genetic.shape)
        trait = genetic + age_effect[:, None] + noise
        if model.prevalence is not None:
            trait[:, -1] = trait[:, -1] > NormalDist().inv_cdf(1 - model.prevalence)
        yield PeopleSlab(people, sex, age, genetic, trait)
