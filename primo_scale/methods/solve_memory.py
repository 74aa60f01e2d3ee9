"""Peak memory of solving, from public sizes: what a release is refused for before it is paid for.

Like `primo_scale.accumulate.task_memory`, an upper bound that comes near; tests hold
`solution.solve_statistics` against it.
"""

from __future__ import annotations

import math

from primo_scale.methods.catalogue import Method
from primo_scale.methods.estimators import Estimator
from primo_scale.methods.fit import GAP_ROWS
from primo_scale.storage.block_matrices import BlockLayout

_FLOAT64 = 8
# Matrices of (variants of a block, phenotypes) that are there at once: while a block is solved and
# its fit is estimated, and of the block before while the next one is decomposed.
_COLUMNS_SOLVING, _COLUMNS_BEFORE = 16, 6
# Of the rows of gaps between eigenvalues that `fit` holds: these, their inverses, and a mask.
_GAP_MATRICES = 2.125
# Z'Z and what its decomposition takes, for a projection across phenotypes.
_OUTCOME_GRAMS = 5


def solve_bytes(layout: BlockLayout, method: Method, estimator: Estimator) -> int:
    """Bytes that solving every phenotype takes on, beyond the process it runs in.

    Parameters
    ----------
    layout
        Of the statistics.
    method, estimator
        As `solution.solve_statistics` takes them.
    """
    columns = 1 if method.gram_per_phenotype else layout.n_phenotypes
    sizes = sorted(layout.sizes, reverse=True)
    largest = sizes[0]
    before = sizes[1] if len(sizes) > 1 else largest if method.gram_per_phenotype else 0
    gaps = math.ceil(_GAP_MATRICES * min(largest, GAP_ROWS))
    solving = largest * (largest + _COLUMNS_SOLVING * columns + gaps)
    decomposing = 2 * largest**2 + before * (before + _COLUMNS_BEFORE * columns)
    decomposing += 2 * largest * layout.n_outcomes
    kept = 0
    if estimator.needs_every_spectrum:
        kept = sum(size * (size + columns) for size in sizes)
    weights = layout.n_variants * layout.n_phenotypes
    across = _OUTCOME_GRAMS * layout.n_outcomes**2 if method.projects_phenotypes else 0
    return _FLOAT64 * (max(solving, decomposing) + kept + weights + across)
