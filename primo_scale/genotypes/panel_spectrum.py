"""Principal components of the linkage disequilibrium of a public panel, in every LD block.

In a block of v coded variants, the panel's covariance matrix has eigenvectors, the components, and
eigenvalues. Those of few people are too large where they are largest, because the vectors follow
chance. The variance of each component is therefore measured by cross-validation: in people from
whom the vectors were not computed (docs/maths/ld-components.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
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

_Result = TypeVar("_Result")


def variances_outside(
    panel: LdPanel, coding: GenotypeCoding, boundaries: tuple[int, ...]
) -> Iterator[tuple[Float64, Float64]]:
    """Yield a pair of arrays for every LD block: variances in people outside the panel.

    The first has the variances of the components, in squared lattice units and in the order of
    `components`, shape (k,). The second has those of the directions that no component covers, all
    equal, shape (v - k,).
    """
    yield from _side_by_side(partial(_measured, panel, coding), boundaries)


def components(
    panel: LdPanel, coding: GenotypeCoding, boundaries: tuple[int, ...]
) -> Iterator[Float64]:
    """Yield the components of every LD block, orthonormal rows of shape (k, v).

    The leading eigenvectors of the covariance of the variants that the panel has come first, then
    one unit vector for each of the others.
    """
    yield from _side_by_side(partial(_vectors, panel, coding), boundaries)


def _side_by_side(
    of_block: Callable[[slice], _Result], boundaries: tuple[int, ...]
) -> Iterator[_Result]:
    """Yield the result of every block, computed on one thread each."""
    threads, blocks = usable_cpus(), list(starmap(slice, pairwise(boundaries)))
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
        for start in range(0, len(blocks), 4 * threads):  # bounds the memory of finished blocks
            check()
            yield from pool.map(of_block, blocks[start : start + 4 * threads])


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


def _measured(panel: LdPanel, coding: GenotypeCoding, variants: slice) -> tuple[Float64, Float64]:
    here, others, coded = _coded(panel, coding, variants)
    measured = _cross_validated(coded, min(coded.shape))
    total = float((coded**2).sum() / coded.shape[1])
    missed = len(here) - len(measured)
    left = max(total - measured.sum(), 0.0) / max(missed, 1)
    variances = np.concatenate([measured, coding.variances[variants][others]])
    return variances, np.full(missed, left)


def _vectors(panel: LdPanel, coding: GenotypeCoding, variants: slice) -> Float64:
    here, others, coded = _coded(panel, coding, variants)
    found = _eigenvectors(coded)
    vectors = np.zeros((len(found) + len(others), len(here) + len(others)))
    vectors[: len(found), here] = found
    vectors[np.arange(len(found), len(vectors)), others] = 1.0
    return vectors


def _cross_validated(coded: Float64, n_components: int) -> Float64:
    """Return the variances of the leading components in people who did not define them."""
    v, people = coded.shape
    sums, fold_of = np.zeros(n_components), np.arange(people) % _FOLDS
    few = v <= people - math.ceil(people / _FOLDS)  # variants, whose products are the smaller ones
    products = coded @ coded.T if few else coded.T @ coded
    for fold in range(_FOLDS):
        here = fold_of == fold
        if few:
            others = coded[:, here]
            projected = _leading(products - others @ others.T)[1].T @ others
        else:
            values, vectors = _leading(products[~here][:, ~here])
            projected = (vectors * _inverse_roots(values)).T @ products[~here][:, here]
        squares = (projected**2).sum(axis=1)
        sums[: len(squares)] += squares[:n_components]
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
