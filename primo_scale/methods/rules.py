"""Rules of the estimators: each returns the shrinkage of one block.

A penalty chosen from the data is at least the norm of the noise in X'X and at least the prior's
penalty, because the risk estimate that selects it contains neither that noise nor the sampling
noise of a finite cohort (docs/decisions/shrinkage.md). The projection's penalty is 0 if the noisy
X'Y lies in the set, but X'X is noisy too. With public genotypes X'X has no noise, and the floor is
0.

James-Stein factors need only a floor under the eigenvalues of a noisy X'X, and no ridge at the
noise norm (docs/decisions/shrinkage.md).

The rules of SSP, AdaSSP and constSSPfull have the formulas of the thesis on differentially private
ridge regression (docs/maths/estimation.md). The noise and the constants are those of this project:
the noise is calibrated jointly, the bound on its norm is that of the svec layout, and 1 means one
squared unit of the genotype coding.
"""

from __future__ import annotations

import math

from primo_scale.methods.estimators import EstimatorInputs
from primo_scale.methods.shrinkage import JamesStein, KnownNoise, Ridge, noise_norm
from primo_scale.methods.spectrum import Spectrum
from primo_scale.methods.sure import sure_penalty


def known_noise(spectrum: Spectrum, inputs: EstimatorInputs) -> KnownNoise:
    """Return the posterior mean for known noise."""
    columns = spectrum.phenotypes
    return KnownNoise(
        effect_variance=inputs.prior.effect_variance[columns],
        residual_variance=inputs.prior.residual_variance[columns],
        cross_sigma=spectrum.target_sigma,
        gram_sigma=spectrum.gram_sigma,
    )


def ridge_at_noise_norm(spectrum: Spectrum, inputs: EstimatorInputs) -> Ridge:
    """Return ridge at the larger of the noise norm and the prior's penalty."""
    return Ridge(max(_norm(spectrum), inputs.prior.penalty))


def sure(spectrum: Spectrum, inputs: EstimatorInputs) -> Ridge:
    """Return ridge of least estimated risk, at least that of `ridge_at_noise_norm`."""
    least, sigma = ridge_at_noise_norm(spectrum, inputs).penalty, spectrum.target_sigma
    return Ridge(sure_penalty(spectrum.values, spectrum.target, sigma, least=least))


def james_stein(spectrum: Spectrum, inputs: EstimatorInputs) -> JamesStein:
    """Return James-Stein factors on ridge at the prior's penalty."""
    return JamesStein(inputs.prior.penalty, spectrum.target_sigma, _norm(spectrum))


def ridge(spectrum: Spectrum, inputs: EstimatorInputs) -> Ridge:
    """Return ridge at the given penalty."""
    return Ridge(inputs.penalty)


def projection(spectrum: Spectrum, inputs: EstimatorInputs) -> Ridge:
    """Return ridge at the multiplier of the projection, at least the noise norm."""
    return Ridge(max(inputs.penalty, _norm(spectrum)))


def unit_ridge(spectrum: Spectrum, inputs: EstimatorInputs) -> Ridge:
    """Return the rule of SSP: ridge 1, which is ``unit^2`` on a lattice of `unit` steps."""
    return Ridge(float(inputs.unit**2))


def eigenvalue_ridge(spectrum: Spectrum, inputs: EstimatorInputs) -> Ridge:
    """Return the rule of AdaSSP, and of constSSPfull, which measures no smallest eigenvalue.

    It is ridge ``max(0, noise norm - smallest) + 1``. The bound on the smallest eigenvalue is that
    of X'X before the adjustment for covariates, which can only lower the eigenvalue.
    """
    return Ridge(max(0.0, _norm(spectrum) - inputs.smallest_eigenvalue) + inputs.unit**2)


def eigenvalue_bound(noisy_smallest: float | None, sigma: float, delta: float) -> float:
    """Return a lower bound on the smallest eigenvalue of X'X from its noisy value.

    The bound is ``max(noisy - sigma sqrt(2 log(2/delta)), 0)``, or 0 if the eigenvalue was not
    measured. It fails with probability below delta/2.
    """
    if noisy_smallest is None:
        return 0.0
    return max(noisy_smallest - sigma * math.sqrt(2 * math.log(2 / delta)), 0.0)


def _norm(spectrum: Spectrum) -> float:
    return noise_norm(spectrum.gram_sigma, len(spectrum.values))
