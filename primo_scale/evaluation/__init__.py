"""Accuracy of scores in people whose genotypes and phenotypes may be looked at."""
