"""The predicted memory of solving is an upper bound, and a tight one."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from methods_examples import solved
from whole_matrices import write_matrices

from primo_scale.methods.catalogue import METHODS
from primo_scale.methods.estimators import ESTIMATORS, EffectPrior
from primo_scale.methods.solution import SolveInputs
from primo_scale.methods.solve_memory import solve_bytes
from primo_scale.privacy.mechanism import NoiseScales, PublicBounds, Recipe
from primo_scale.storage.block_matrices import BlockLayout

MOST_BEYOND, LEAST_USED = 1.05, 0.45
CASES = {
    "one large block": ((1_000,), 2, "reuse-cov-gauss", None),
    "more phenotypes than variants": ((300,), 900, "reuse-cov-gauss", None),
    "many small blocks": ((50,) * 20, 400, "reuse-cov-gauss", None),
    "a large block after another": ((600, 700), 50, "reuse-cov-gauss", None),
    "a penalty for each block": ((600, 500), 100, "reuse-cov-gauss", "sure"),
    "factors across phenotypes": ((400,), 400, "reuse-cov-gauss", "james-stein"),
    "decompositions kept": ((250,) * 8, 30, "reuse-cov-proj", None),
    "projected phenotypes": ((300,), 300, "reuse-cov-proj-y", None),
    "many small blocks, projected": ((50,) * 20, 400, "reuse-cov-proj-y", None),
    "an X'X for each phenotype": ((500, 100), 4, "naive", None),
}


@pytest.fixture(scope="module", autouse=True)
def libraries(tmp_path_factory) -> None:
    """Load what solving imports at its first call."""
    layout = BlockLayout((0, 4), 2, 2)
    for method in {case[2] for case in CASES.values()}:
        copies = METHODS[method].recipe(2, None).gram_copies
        path = tmp_path_factory.mktemp(method) / "statistics"
        solved(random_statistics(path, layout, copies), inputs_of(layout, copies), method)


@pytest.mark.parametrize("case", CASES)
def test_peak_memory_of_solving_is_as_predicted(case, tmp_path):
    sizes, n_phenotypes, method, estimator = CASES[case]
    layout = BlockLayout((0, *np.cumsum(sizes).tolist()), 2, n_phenotypes)
    copies = METHODS[method].recipe(n_phenotypes, None).gram_copies
    statistics = random_statistics(tmp_path / "statistics", layout, copies)
    inputs = inputs_of(layout, copies)
    tracemalloc.start()
    solved(statistics, inputs, method, estimator)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    said = solve_bytes(
        layout, METHODS[method], ESTIMATORS.get(estimator, METHODS[method].estimator)
    )
    print(f"{case}: {peak / 1e6:.1f} MB of {said / 1e6:.1f}, {peak / said:.2f}")
    assert peak <= MOST_BEYOND * said
    assert peak >= LEAST_USED * said


def random_statistics(path, layout, copies):
    rng = np.random.default_rng(0)
    q, entries = layout.n_outcomes, [rng.integers(-50, 51, (size, size)) for size in layout.sizes]
    return write_matrices(
        path, layout, [e + e.T + 10_000 * np.eye(len(e), dtype=np.int64) for e in entries],
        [rng.integers(-999, 1000, (size, q)) for size in layout.sizes],
        10**6 * np.eye(q, dtype=np.int64), np.full(layout.n_phenotypes, 10_000),
        gram_copies=copies,
    ).finish({})  # fmt: skip


def inputs_of(layout, copies):
    n_phenotypes = layout.n_phenotypes
    return SolveInputs(
        bounds=PublicBounds(10**4, None, 1, 10**6, layout.sizes, 10_000, n_phenotypes),
        scales=NoiseScales((3.0,) * layout.n_blocks, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0),
        recipe=Recipe(0.0, copies),
        delta=1e-6,
        unit=1,
        rescale=np.ones(n_phenotypes),
        prior=EffectPrior(np.ones(n_phenotypes), np.ones(n_phenotypes)),
    )
