"""Phenotype and covariate tables, their public bounds, and their integer lattice."""
