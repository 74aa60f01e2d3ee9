"""Figures of the papers and of docs/maths, with the algorithms of the papers and of the product.

This package cannot make a release: its noise is numpy's Gaussian under a fixed seed, bounds may be
computed from the simulated data where a paper does so, and every person is simulated. The product
never imports this package, which holds the only copy of the papers' constants.
"""
