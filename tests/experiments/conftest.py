"""A small simulated cohort."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.haplotypes import Sizes, simulate


@pytest.fixture(scope="session")
def cohort():
    return simulate(Sizes(n_haplotypes=600, n_variants=6, n_phenotypes=5), np.random.default_rng(8))
