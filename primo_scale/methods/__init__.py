"""From private statistics to weights: ridge regression for every phenotype at once."""
