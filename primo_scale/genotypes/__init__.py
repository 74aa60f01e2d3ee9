"""PLINK 1 filesets, the packed genotype store and the public coding of genotypes."""
