"""The mechanism of a release as release.json states it: every noisy statistic and its noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Layout = Literal["svec", "full"]

STATISTICS = {
    "gram": "X'X by LD block",
    "fixed_cross": "X'C, genotypes by constant and covariates",
    "phenotype_cross": "X'Y, genotypes by phenotypes",
    "fixed_gram": "C'C, constant and covariates",
    "fixed_phenotype": "C'Y, constant and covariates by phenotypes",
    "phenotype_gram": "Y'Y, phenotypes",
    "observed": "people with each phenotype",
    "smallest_eigenvalue": "smallest eigenvalue of X'X",
    "phenotype_moments": "sum, sum of squares and count of each phenotype",
}
"""Every statistic that can be measured, for a reader."""


@dataclass(frozen=True)
class Drawn:
    """A proved way to draw noise, in the only words that release.json has for it.

    Attributes
    ----------
    sampler
        Its name.
    exactness
        How near its noise is to the ideal.
    rng
        From what randomness.
    """

    sampler: str
    exactness: str
    rng: str


KEYSTREAM_DISTANCE = 4e-119
"""Total variation between a keystream draw and the rounded Gaussian (docs/maths/sampler.md)."""

# Earlier versions drew releases of few numbers, and phenotype moments, with OpenDP.
OPENDP = Drawn(
    "OpenDP exact discrete Gaussian on a fine lattice, rounded to integers",
    "exact discrete Gaussian on a lattice with at least 2^32 steps to a standard deviation; its "
    "distance to the ideal Gaussian mechanism has a multiplicative bound, which the calibration "
    "leaves room for (docs/maths/noise.md)",
    "operating system entropy, through OpenDP",
)
KEYSTREAM = Drawn(
    "Gaussian from an AES-256-CTR keystream on a fine lattice, rounded to integers",
    "Gaussian rounded to a lattice with at least 2^32 steps to a standard deviation, each draw "
    f"within {KEYSTREAM_DISTANCE:g} of it in total variation, proved in docs/maths/sampler.md",
    "AES-256-CTR under a fresh key from operating system entropy, so that the guarantee is "
    "computational (docs/maths/sampler.md)",
)


KEYSTREAM_AND_OPENDP = replace(
    KEYSTREAM, sampler=f"{KEYSTREAM.sampler}; phenotype moments: {OPENDP.sampler}"
)


@dataclass(frozen=True)
class Query:
    """One noisy statistic of genotypes X, fixed columns C and phenotypes Y.

    Attributes
    ----------
    name
        ``gram`` (X'X by LD block), ``fixed_cross`` (X'C), ``phenotype_cross`` (X'Y),
        ``fixed_gram`` (C'C), ``fixed_phenotype`` (C'Y), ``phenotype_gram`` (Y'Y), ``observed``
        (people with each phenotype), ``smallest_eigenvalue`` (of X'X) or ``phenotype_moments``.
    statistic
        The same for a reader.
    shape
        Of the statistic; of the dense d x d matrix for ``gram``.
    layout
        ``svec``: symmetric, off-diagonal noise `off_diagonal_sigma`; ``full``: all alike.
    sensitivity
        Greatest l2 change between neighbours, of this statistic alone, in lattice units: one
        number, or one for every LD block where blocks have bounds of their own.
    sigma, off_diagonal_sigma
        Standard deviations of the noise, in lattice units; as many.
    fine_bits
        The noise was drawn on multiples of 2^-fine_bits, then the sum rounded to integers.
    """

    name: str
    statistic: str
    shape: tuple[int, ...]
    layout: Layout
    sensitivity: tuple[float, ...]
    sigma: tuple[float, ...]
    off_diagonal_sigma: tuple[float, ...] | None
    fine_bits: tuple[int, ...]


@dataclass(frozen=True)
class Mechanism:
    """How the noise was calibrated (docs/maths).

    Attributes
    ----------
    method, summary, reason
        Name in docs/methods.md, what it does, and why it was used: ``as given``, or what chose it.
    calibration
        Which theorem joins the queries: ``stacked``, ``by-block``, ``add-remove``, ``label`` or
        ``subsampled``.
    split
        t, which says how X'X and X'(C, Y) share the shift: D/A for one dense X'X, and 2 tau with
        tau^3 + 3 tau = D/Q for LD blocks (docs/maths/blocks.md); None where nothing is shared.
    row_norm_squared
        N_x: every genotype row on the lattice satisfies ``||x||^2 <= N_x``; with label privacy
        ``||x||^2 ||y||^2 <= N_x N_y`` instead.
    block_norms_squared
        beta_b of every LD block, where ``||x_b||^2 <= beta_b`` too and noise rests on it; else
        None.
    constant_and_covariates_norm_squared, phenotypes_norm_squared
        N_c and N_y.
    counts_share, eigenvalue_share
        Shares of the statistics' mu^2 spent on ``observed`` and ``smallest_eigenvalue``.
    share
        Share of the release's mu^2 spent on the statistics: 1, or less where phenotype moments
        were bought first.
    gram_copies
        Noisy copies of X'X, each with noise of its own.
    subsample
        People of the secret subsample that X'X is summed over; None: everybody.
    exact_parts
        Statistics that are public under the promise and got no noise.
    queries
        All that was measured on the cohort with noise.
    sampler, sampler_exactness, rng
        How noise was drawn, how near that is to its ideal, and from what randomness.
    """

    method: str
    summary: str
    reason: str
    calibration: str
    split: float | None
    row_norm_squared: int
    block_norms_squared: tuple[int, ...] | None
    constant_and_covariates_norm_squared: int
    phenotypes_norm_squared: int
    counts_share: float
    eigenvalue_share: float
    share: float
    gram_copies: int
    subsample: int | None
    exact_parts: tuple[str, ...]
    queries: tuple[Query, ...]
    sampler: str
    sampler_exactness: str
    rng: str
