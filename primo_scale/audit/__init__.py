"""Empirical audit: lower bounds on the epsilon of a mechanism, from the noise that it draws."""
