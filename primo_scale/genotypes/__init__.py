"""Genotype files, the packed genotype store and the public coding of genotypes."""
