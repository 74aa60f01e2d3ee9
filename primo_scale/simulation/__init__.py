"""Simulated biobank-like cohorts from real public genotypes, for demonstrations and benchmarks."""
