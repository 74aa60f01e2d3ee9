"""Public panel of genotypes: linkage disequilibrium, its blocks, and its components."""
