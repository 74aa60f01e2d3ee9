"""PLINK filesets, the packed genotype store, public variant coding."""
