"""Peak memory of solving, from public sizes: what a release is refused for before it is paid for.

Like `primo_scale.accumulate.task_memory`, an upper bound that comes near; tests hold
`solution.solve_statistics` against it.
"""

from __future__ import annotations

from primo_scale.storage.block_matrices import BlockLayout

_FLOAT64 = 8
# Matrices of (variants of a block, phenotypes) that are there at once: while a block is solved and
# its fit is estimated, and of the block before while the next one is decomposed.
_COLUMNS_SOLVING, _COLUMNS_BEFORE = 14, 6
# Rows of the matrix of eigenvalue gaps, of which there are three, that `fit` holds at a time.
_GAP_ROWS = 1024
# All weights: on the lattice, per allele, and one on the way from the first to the second.
_WEIGHTS = 3


def solve_bytes(layout: BlockLayout, *, gram_copies: int, keeps_spectra: bool) -> int:
    """Bytes that solving every phenotype takes on, beyond the process it runs in.

    Parameters
    ----------
    layout
        Of the statistics.
    gram_copies
        Copies of X'X; with more than one, each is decomposed for a phenotype of its own.
    keeps_spectra
        Whether the decompositions of all blocks are kept (`solution.solve_statistics`).
    """
    columns = layout.n_phenotypes if gram_copies == 1 else 1
    sizes = sorted(layout.sizes, reverse=True)
    largest = sizes[0]
    before = sizes[1] if len(sizes) > 1 else largest if gram_copies > 1 else 0
    solving = largest * (largest + _COLUMNS_SOLVING * columns + 3 * min(largest, _GAP_ROWS))
    decomposing = 2 * largest**2 + before * (before + _COLUMNS_BEFORE * columns)
    decomposing += 2 * largest * layout.n_outcomes
    kept = sum(size * (size + 2 * columns) for size in sizes) if keeps_spectra else 0
    weights = _WEIGHTS * layout.n_variants * layout.n_phenotypes
    return _FLOAT64 * (max(solving, decomposing) + kept + weights)
