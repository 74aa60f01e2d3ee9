"""A small simulated cohort, and the tier of this folder: the papers are not the product."""

from pathlib import Path

import numpy as np
import pytest

from experiments.haplotypes import simulate


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def cohort():
    return simulate(600, 6, 5, np.random.default_rng(8))
