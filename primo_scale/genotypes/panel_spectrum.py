"""Principal components of the linkage disequilibrium of a public panel, in every LD block.

In a block of v coded variants, the panel's covariance matrix has eigenvectors, the components, and
eigenvalues. Those of few people are too large where they are largest, because the vectors follow
chance. The variance of each component is therefore measured by cross-validation: in people from
whom the vectors were not computed. Few people define few eigenvectors. The directions that are left
share the variance that is left equally (docs/maths/ld-components.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise, starmap
from typing import TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from primo_scale.genotypes.coding import GenotypeCoding
from primo_scale.genotypes.ld_panel import Float64, LdPanel
from primo_scale.genotypes.tables import Index
from primo_scale.interruption import check
from primo_scale.machine import usable_cpus

_FOLDS = 5

_Block = TypeVar("_Block")
_Result = TypeVar("_Result")


def variances_outside(
    panel: LdPanel, coding: GenotypeCoding, boundaries: tuple[int, ...]
) -> Iterator[Float64]:
    """Yield the variances of all components of every LD block in people outside the panel.

    They are in squared lattice units and in the order of `components`, shape (v,).
    """
    yield from _side_by_side(partial(_measured, panel, coding), _blocks(boundaries))


def components(
    panel: LdPanel, coding: GenotypeCoding, boundaries: tuple[int, ...], chosen: Iterable[Index]
) -> Iterator[Float64]:
    """Yield the chosen components of every LD block, orthonormal rows of shape (chosen, v).

    `chosen` has their positions in each block. The leading eigenvectors of the covariance of the
    variants that the panel has come first, as many as cross-validation can measure. One unit vector
    for each of the other variants follows. Directions that complete the eigenvectors come last; the
    panel shows no difference between them.
    """
    blocks = zip(_blocks(boundaries), chosen, strict=True)
    yield from _side_by_side(partial(_vectors, panel, coding), blocks)


def _blocks(boundaries: tuple[int, ...]) -> Iterator[slice]:
    return starmap(slice, pairwise(boundaries))


def _side_by_side(
    of_block: Callable[[_Block], _Result], blocks: Iterable[_Block]
) -> Iterator[_Result]:
    """Yield the result of every block, computed on one thread each."""
    threads, every = usable_cpus(), list(blocks)
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
        for start in range(0, len(every), 4 * threads):  # bounds the memory of finished blocks
            check()
            yield from pool.map(of_block, every[start : start + 4 * threads])


def _coded(panel: LdPanel, coding: GenotypeCoding, variants: slice) -> tuple[Index, Index, Float64]:
    """Return the variants that vary in the panel, all others, and centred codes of the former.

    Variants are positions in the slice `variants`; codes have the shape (varying, people).
    """
    here, dosages = panel.centred_dosages(variants)
    varying = dosages.any(axis=1)
    here, dosages = here[varying], dosages[varying]
    others = np.setdiff1d(np.arange(variants.stop - variants.start), here)
    coded = dosages * coding.multiplier[variants][here, None]
    return here, others, np.asarray(coded, dtype=np.float64)


def _measured(panel: LdPanel, coding: GenotypeCoding, variants: slice) -> Float64:
    _, others, coded = _coded(panel, coding, variants)
    measured = _cross_validated(coded)
    total = float((coded**2).sum() / coded.shape[1])
    n_alike = len(coded) - len(measured)
    left = max(total - measured.sum(), 0.0) / max(n_alike, 1)
    return np.concatenate([measured, coding.variances[variants][others], np.full(n_alike, left)])


def _vectors(panel: LdPanel, coding: GenotypeCoding, block: tuple[slice, Index]) -> Float64:
    variants, chosen = block
    here, others, coded = _coded(panel, coding, variants)
    found = _eigenvectors(coded)[: _n_measured(coded)]
    leading, rest = len(found), len(found) + len(others)
    vectors = np.zeros((len(here) + len(others),) * 2)
    vectors[:leading, here] = found
    vectors[np.arange(leading, rest), others] = 1.0
    if chosen.max(initial=0) >= rest:
        basis, _ = np.linalg.qr(found.T, mode="complete")
        vectors[rest:, here] = basis[:, leading:].T
    return np.asarray(vectors[chosen])


def _n_measured(coded: Float64) -> int:
    """Return the number of components that the people outside of any fold can define."""
    v, people = coded.shape
    return int(min(v, people - math.ceil(people / _FOLDS) - 1))


def _cross_validated(coded: Float64) -> Float64:
    """Return the variances of the leading components in people who did not define them.

    Codes have the mean 0. In every fold they are centred again, at the mean of the people who
    define its components. The mean of everybody depends on the others, who would seem to vary along
    the difference.
    """
    v, people = coded.shape
    sums, fold_of = np.zeros(_n_measured(coded)), np.arange(people) % _FOLDS
    few = v == len(sums)  # few variants: their products are a smaller matrix than the people's
    products = coded @ coded.T if few else coded.T @ coded
    for fold in range(_FOLDS):
        here = fold_of == fold
        if few:
            others, defining = coded[:, here], people - int(here.sum())
            mean = -others.sum(axis=1) / defining
            covariance = products - others @ others.T - defining * np.outer(mean, mean)
            projected = _leading(covariance)[1].T @ (others - mean[:, None])
        else:
            kept, across = products[~here][:, ~here], products[~here][:, here]
            mean = kept.mean(axis=1)
            values, vectors = _leading(kept - mean - mean[:, None] + mean.mean())
            projected = (vectors * _inverse_roots(values)).T @ (across - mean[:, None])
        sums += (projected[: len(sums)] ** 2).sum(axis=1)
    return np.asarray(sums / people)


def _eigenvectors(coded: Float64) -> Float64:
    """Return the eigenvectors of ``coded coded'`` as rows, by descending eigenvalue.

    There are as many as the smaller side of `coded`. Those that the people do not span are zero.
    """
    v, people = coded.shape
    if v <= people:
        return np.asarray(_leading(coded @ coded.T)[1].T)
    values, vectors = _leading(coded.T @ coded)
    return np.asarray((coded @ (vectors * _inverse_roots(values))).T)


def _leading(products: Float64) -> tuple[Float64, Float64]:
    """Return the eigenvalues of a matrix, and the eigenvectors in columns, the largest first."""
    values, vectors = np.linalg.eigh(products)
    return values[::-1], vectors[:, ::-1]


def _inverse_roots(values: Float64) -> Float64:
    """Return ``values ** -0.5`` of the eigenvalues of a matrix, 0 where they are negligible."""
    negligible = len(values) * np.finfo(np.float64).eps * values.max(initial=0.0)
    spanned = values > negligible
    return np.where(spanned, np.where(spanned, values, 1.0) ** -0.5, 0.0)
