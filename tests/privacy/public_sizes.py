"""Public sizes of a cohort of 100,000 people, for tests of the planner and of the forecast."""

from __future__ import annotations

from primo_scale.privacy.planning import PublicSizes

SIZES = PublicSizes(
    n_samples=100_000,
    n_variants=17_259,
    n_phenotypes=1,
    largest_block=500,
    row_norm=7_800,
    variant_variance=0.4,
    phenotype_scale=1024,
)
