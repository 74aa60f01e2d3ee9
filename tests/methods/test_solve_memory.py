"""The predicted memory of solving is an upper bound, and a tight one."""

from dataclasses import replace

import numpy as np
import pytest
from support.methods_examples import solved
from support.stores import write_matrices
from support.traced_memory import least_peak

from primo_scale.methods.catalogue import METHODS
from primo_scale.methods.component_weights import PanelComponents
from primo_scale.methods.estimators import ESTIMATORS, EffectPrior
from primo_scale.methods.public_scores import PublicScores
from primo_scale.methods.solution import SolveInputs
from primo_scale.methods.solve_memory import effects_bytes, solve_bytes
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
    "many small blocks, projected": ((50,) * 20, 400, "reuse-cov-proj-y", None),
    "an X'X for each phenotype": ((500, 100), 4, "naive", None),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_peak_memory_of_solving_is_as_predicted(case, tmp_path):
    sizes, n_phenotypes, method, estimator = CASES[case]
    layout = BlockLayout((0, *np.cumsum(sizes).tolist()), 2, n_phenotypes)
    copies = METHODS[method].recipe(n_phenotypes, None).gram_copies
    statistics = random_statistics(tmp_path / "statistics", layout, copies)
    inputs = inputs_of(layout, copies)
    peak = least_peak(lambda: solved(statistics, inputs, method, estimator))
    said = solve_bytes(
        layout, METHODS[method], ESTIMATORS.get(estimator, METHODS[method].estimator)
    )
    assert LEAST_USED * said <= peak <= MOST_BEYOND * said


@pytest.mark.slow
def test_peak_memory_with_public_scores_is_as_predicted(tmp_path):
    """The effects of the scores are in memory before."""
    layout = BlockLayout((0, 600, 1300), 2, 50)
    statistics = random_statistics(tmp_path / "statistics", layout, 1)
    effects = np.random.default_rng(1).normal(size=(layout.n_variants, 20))
    scores = PublicScores(effects, np.ones((20, 50), dtype=np.bool_))
    inputs = replace(inputs_of(layout, 1), scores=scores)
    peak = least_peak(lambda: solved(statistics, inputs))
    method = METHODS["reuse-cov-gauss"]
    said = solve_bytes(layout, method, method.estimator, n_scores=20)
    assert LEAST_USED * said <= peak <= MOST_BEYOND * said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "sizes", "n_phenotypes", "wide"),
    [
        ("genetic-factors", (60,) * 10, 60, 3),
        ("point-normal", (200, 100), 2, 3),
        ("point-normal", (300, 200), 3, 1),  # as without noise
    ],
)
def test_peak_memory_of_fitted_effects_is_as_predicted(
    estimator, sizes, n_phenotypes, wide, tmp_path
):
    """`wide` variants for each component."""
    layout = BlockLayout((0, *np.cumsum(sizes).tolist()), 2, n_phenotypes)
    statistics = random_statistics(tmp_path / "statistics", layout, 1)
    rng, block_sizes = np.random.default_rng(1), tuple(wide * size for size in sizes)
    maps = [rng.standard_normal((size, wide * size)) for size in sizes]
    panel = PanelComponents(
        map_of=lambda block: maps[block],
        variances=np.ones(layout.n_variants),
        squared_norms=np.concatenate([(each**2).sum(axis=1) for each in maps]),
        n_known=300,
        n_samples=10_000,
        boundaries=(0, *np.cumsum(block_sizes).tolist()),
    )
    inputs = replace(inputs_of(layout, 1), components=panel)
    peak = least_peak(lambda: solved(statistics, inputs, estimator=estimator))
    method, chosen = METHODS["reuse-cov-gauss"], ESTIMATORS[estimator]
    said = solve_bytes(layout, method, chosen) + effects_bytes(layout, block_sizes, chosen)
    said += 2 * 8 * layout.n_variants * n_phenotypes  # weights of variants, not of components
    assert LEAST_USED * said <= peak <= MOST_BEYOND * said


def random_statistics(path, layout, copies):
    rng = np.random.default_rng(0)
    q, entries = layout.n_outcomes, [rng.integers(-50, 51, (size, size)) for size in layout.sizes]
    return write_matrices(
        path, layout, [e + e.T + 10_000 * np.eye(len(e), dtype=np.int64) for e in entries],
        [rng.integers(-999, 1000, (size, q)) for size in layout.sizes],
        10**6 * np.eye(q, dtype=np.int64), np.full(1 + layout.n_phenotypes, 10_000),
        gram_copies=copies,
    ).finish({})  # fmt: skip


def inputs_of(layout, copies):
    n_phenotypes = layout.n_phenotypes
    return SolveInputs(
        bounds=PublicBounds(10**4, None, 10**6, layout.sizes, 10_000, n_phenotypes),
        scales=NoiseScales((3.0,) * layout.n_blocks, 3.0, 3.0, 3.0),
        recipe=Recipe(0.0, copies),
        delta=1e-6,
        unit=1,
        rescale=np.ones(n_phenotypes),
        prior=EffectPrior(np.ones(n_phenotypes), np.ones(n_phenotypes)),
        n_samples=10_000,
        penalty=0.0,
    )
