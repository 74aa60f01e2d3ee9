"""Biobank-shaped cohorts made of real public genotypes, for demonstrations and measurements."""
