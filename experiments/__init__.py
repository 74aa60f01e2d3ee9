"""Reference figures, computed again: the papers' algorithms beside the product's.

Nothing here can make a release: noise is numpy's Gaussian under a fixed seed, bounds may be read
off the simulated data where a paper does so, and every person is simulated. The product never
imports this package; it holds the only copy of the papers' own constants.
"""
