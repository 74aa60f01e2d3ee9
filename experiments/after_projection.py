"""``python -m experiments.after_projection``: how to solve once X'Y has been projected by Y'Y.

With feature privacy the product projects X'Y onto the set that bounded genotype rows can produce
from the public phenotypes. This removes most of the noise in X'Y and none in X'X, so the shrinkage
rule needs the variance of the remaining noise. The rule of the method, weights for known noise,
uses the noise that remains in the column of each phenotype. This experiment compares it with other
rules on the same cohorts and noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import click
import numpy as np

from experiments.figures import markdown_table, standard_error
from experiments.gaussian_noise import Float64, draw
from experiments.haplotypes import Sizes, simulate
from experiments.product_methods import NoisyStatistics, release
from experiments.product_weights import (
    product_radius,
    product_weights,
    projected_on_phenotypes,
    rule_weights,
)
from primo_scale.gaussian.sensitivity import PrivacyUnit
from primo_scale.methods.estimators import ESTIMATORS
from primo_scale.methods.shrinkage import JamesStein, KnownNoise
from primo_scale.privacy.mechanism import Promise

_SEED = 20261124
_METHOD = "reuse-cov-proj-y"
_EFFECT_SD_AT_25 = 25**-0.25  # of d = 25 effects; d times their variance is held where it is there


@dataclass(frozen=True)
class Cell:
    """Haplotypes n, variants d, phenotypes l, epsilon; delta is 1/n^2."""

    n_haplotypes: int
    n_variants: int
    n_phenotypes: int
    epsilon: float

    @property
    def sizes(self) -> Sizes:
        """Sizes with effects that explain the same variance for every d."""
        effect_sd = _EFFECT_SD_AT_25 * math.sqrt(25 / self.n_variants)
        return Sizes(self.n_haplotypes, self.n_variants, self.n_phenotypes, effect_sd)


CELLS = (
    *(Cell(5_008, 25, count, 5.0) for count in (101, 200, 458, 1_001)),
    *(Cell(20_000, 200, count, 3.0) for count in (100, 400, 800)),
)
RULES = (
    "known noise, told what is left (the default)",
    "not projected, known noise",
    "known noise, told all noise",
    "ridge at the noise norm",
    "eigenvalues raised to the noise norm, no ridge",
    "James-Stein",
)


def r_squared(cell: Cell, repetition: int) -> Float64:
    """Return the pooled in-sample R^2 of `RULES`, shape (6,)."""
    seed = [_SEED, cell.n_haplotypes, cell.n_variants, cell.n_phenotypes, repetition]
    rng = np.random.default_rng(seed)
    cohort = simulate(cell.sizes, rng)
    noise = draw(cell.n_variants, cell.n_phenotypes, rng)
    promise = Promise(cell.epsilon, cell.n_haplotypes**-2.0, PrivacyUnit.FEATURE)
    noisy = release(cohort, noise, promise)
    projected = projected_on_phenotypes(noisy, cohort, product_radius(noisy, cohort))
    # For a single column, James-Stein is ridge with floored eigenvalues.
    floored = JamesStein(0.0, np.zeros(1), floor=noisy.noise_norm)
    weights = (
        product_weights(noisy, cohort, ESTIMATORS["known-noise"], method=_METHOD),
        product_weights(noisy, cohort, ESTIMATORS["known-noise"]),
        rule_weights(projected, _told_all_noise(noisy)),
        product_weights(noisy, cohort, ESTIMATORS["ridge-at-noise-norm"], method=_METHOD),
        rule_weights(projected, floored),
        product_weights(noisy, cohort, ESTIMATORS["james-stein"], method=_METHOD),
    )
    return np.array([cohort.pooled_r_squared(w) for w in weights])


def _told_all_noise(noisy: NoisyStatistics) -> KnownNoise:
    prior = noisy.prior
    sigma = np.full(noisy.cross.shape[1], noisy.cross_sigma)
    return KnownNoise(prior.effect_variance, prior.residual_variance, sigma, noisy.gram_sigma)


def report(repetitions: int) -> str:
    """Return the table as Markdown."""
    return "\n\n".join(
        (
            "## After an active projection",
            f"Feature privacy, mean in-sample R^2 of {repetitions} repetitions; in brackets the "
            "paired difference from the default, with its standard error.",
            markdown_table(
                ("n, d, epsilon, l", *RULES), [_row(cell, repetitions) for cell in CELLS]
            ),
        )
    )


def _row(cell: Cell, repetitions: int) -> list[str]:
    values = np.array([r_squared(cell, repetition) for repetition in range(repetitions)])
    default = values[:, 0]
    name = f"{cell.n_haplotypes:,}, {cell.n_variants}, {cell.epsilon:g}, {cell.n_phenotypes:,}"
    others = [_compared(other, default) for other in values.T[1:]]
    return [name, f"{default.mean():.4f}", *others]


def _compared(values: Float64, default: Float64) -> str:
    gaps = values - default
    return f"{values.mean():.4f} ({gaps.mean():+.4f} +- {standard_error(gaps):.4f})"


@click.command()
@click.option("--repetitions", type=click.IntRange(min=2), default=6, show_default=True)
def main(repetitions: int) -> None:
    """Compare rules of shrinkage after the projection by public phenotypes."""
    click.echo(report(repetitions))


if __name__ == "__main__":
    main()
