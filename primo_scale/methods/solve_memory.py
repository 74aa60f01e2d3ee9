"""Peak memory of solving, from public sizes: what a release is refused for before it is paid for.

Like `primo_scale.accumulate.task_memory`, an upper bound that comes near; tests hold
`solution.solve_statistics` against it.
"""

from __future__ import annotations

from primo_scale.methods.catalogue import Method
from primo_scale.methods.estimators import Estimator
from primo_scale.storage.block_matrices import BlockLayout

_FLOAT64 = 8
# Matrices of (variants of a block, phenotypes) that are held at once: while a block is solved, and
# of the block before while the next one is decomposed.
_COLUMNS_SOLVING, _COLUMNS_BEFORE = 10, 6
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
    largest, *smaller = sorted(layout.sizes, reverse=True)
    # Before a copy of X'X comes another copy of the same block.
    before = largest if method.gram_per_phenotype else max(smaller, default=0)
    solving = largest * (largest + _COLUMNS_SOLVING * columns)
    decomposing = 2 * largest**2 + before * (before + _COLUMNS_BEFORE * columns)
    decomposing += 2 * largest * layout.n_outcomes
    kept = 0
    if estimator.needs_every_spectrum:
        kept = sum(size * (size + columns) for size in layout.sizes)
    weights = layout.n_variants * layout.n_phenotypes
    across = _OUTCOME_GRAMS * layout.n_outcomes**2 if method.projects_phenotypes else 0
    return _FLOAT64 * (max(solving, decomposing) + kept + weights + across)
