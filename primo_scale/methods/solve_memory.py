"""Peak memory of solving, from public sizes, so that a release can be refused before it is paid.

The value is a tight upper bound, as in `primo_scale.accumulation.task_memory`. Tests compare it
with the measured peak of `solution.solve_statistics`.
"""

from __future__ import annotations

from primo_scale.methods.catalogue import Method
from primo_scale.methods.estimators import Estimator
from primo_scale.storage.block_matrices import BlockLayout

_FLOAT64 = 8
# Number of matrices of (variants of a block, phenotypes) in memory: while a block is solved, and of
# the previous block while the next one is decomposed.
_COLUMNS_SOLVING, _COLUMNS_BEFORE = 10, 6
# Z'Z and the matrices of its decomposition, for a projection across phenotypes.
_OUTCOME_GRAMS = 5


def solve_bytes(layout: BlockLayout, method: Method, estimator: Estimator) -> int:
    """Return the memory that solving every phenotype adds to the process, in bytes."""
    columns = 1 if method.gram_per_phenotype else layout.n_phenotypes
    largest, *smaller = sorted(layout.sizes, reverse=True)
    # With a copy of X'X per phenotype, the previous matrix can be of the same, largest block.
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
