"""Peak memory of solving, from public sizes, so that a release can be refused before it is paid.

The value is a tight upper bound, as in `primo_scale.accumulation.needs`. Tests compare it
with the measured peak of `solution.solve_statistics`.
"""

from __future__ import annotations

from primo_scale.machine import usable_cpus
from primo_scale.methods.catalogue import Method
from primo_scale.methods.estimators import Estimator
from primo_scale.methods.map_blocks import LARGEST_SIDE_BY_SIDE
from primo_scale.storage.block_matrices import BlockLayout

_FLOAT64 = 8
# Number of matrices of (variants of a block, phenotypes) in memory: while a block is solved, and of
# the phenotype before, if each has a decomposition of its own.
_COLUMNS_SOLVING, _COLUMNS_BEFORE = 10, 6
# Matrices of (variants of a block, phenotypes) for the prior mean of public scores.
_COLUMNS_OF_MEAN = 3
# Numbers for each coordinate of LD components and phenotype, while genetic factors are estimated.
_COORDINATES = 6
# Matrices of (components, variants) of a block that is solved, those of (components, components)
# beside its decomposition, and numbers for each variant of a sampler of effects.
_MAPS, _GRAMS, _OF_A_SAMPLER = 3, 2, 6
# Z'Z and the matrices of its decomposition, for a projection across phenotypes.
_OUTCOME_GRAMS = 5


def effects_bytes(layout: BlockLayout, block_sizes: tuple[int, ...], estimator: Estimator) -> int:
    """Return the further memory of an estimator that fits the effects of LD components, in bytes.

    `layout` is that of the components, and `block_sizes` are the numbers of variants of each block.
    """
    if not estimator.fits_effects:
        return 0
    phenotypes, n_variants = layout.n_phenotypes, sum(block_sizes)
    maps = [
        components * variants
        for components, variants in zip(layout.sizes, block_sizes, strict=True)
    ]
    needed = _COORDINATES * layout.n_variants * phenotypes + _OUTCOME_GRAMS * phenotypes**2
    solving = (_MAPS * m + _GRAMS * n**2 for m, n in zip(maps, layout.sizes, strict=True))
    needed += sum(sorted(solving)[-usable_cpus() :])
    if estimator.samples_effects_of(n_variants, phenotypes):
        needed += sum(maps)  # kept twice in float32
        needed += n_variants * (phenotypes + _OF_A_SAMPLER * min(usable_cpus(), phenotypes))
    return _FLOAT64 * needed


def solve_bytes(
    layout: BlockLayout, method: Method, estimator: Estimator, *, n_scores: int = 0
) -> int:
    """Return the memory that solving every phenotype adds to the process, in bytes.

    `n_scores` is the number of public scores, whose effects are in memory already.
    """
    columns = 1 if method.gram_per_phenotype else layout.n_phenotypes

    def spectrum(size: int) -> int:
        """Return the entries of a block's decomposition."""
        return size * (size * (2 if 2 * columns < size else 1) + columns)

    def entries(size: int) -> int:
        """Return the most entries at a time while a block is solved."""
        solving = spectrum(size) + _COLUMNS_SOLVING * size * columns
        matrices = 3 if size <= LARGEST_SIDE_BY_SIDE else 2
        decomposing = size * (matrices * size + 2 * layout.n_outcomes)
        if method.gram_per_phenotype:
            decomposing += spectrum(size) + _COLUMNS_BEFORE * size * columns
        if n_scores:
            solving += _COLUMNS_OF_MEAN * size * columns
            decomposing += size * n_scores
        return max(solving, decomposing)

    large = [entries(size) for size in layout.sizes if size > LARGEST_SIDE_BY_SIDE]
    small = sorted(entries(size) for size in layout.sizes if size <= LARGEST_SIDE_BY_SIDE)
    kept = sum(map(spectrum, layout.sizes)) if estimator.needs_every_spectrum else 0
    weights = layout.n_variants * layout.n_phenotypes
    across = _OUTCOME_GRAMS * layout.n_outcomes**2 if method.projects_phenotypes else 0
    at_once = max(*large, sum(small[-usable_cpus() :]), 0)
    return _FLOAT64 * (at_once + kept + weights + across)
