"""Biobank-shaped cohorts made of real public genotypes: for demonstrations, tests and benchmarks."""
