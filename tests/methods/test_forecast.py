"""Memory of solving, which is bounded tightly, and the cost of noise on X'X, by simulation."""

from dataclasses import replace

import numpy as np
import pytest
from support.methods_examples import solved, symmetric_noise
from support.stores import write_matrices
from support.traced_memory import least_peak

from primo_scale.methods.catalogue import ESTIMATORS, METHODS
from primo_scale.methods.effects import EffectPrior
from primo_scale.methods.forecast import effects_bytes, share_with_noisy_gram, solve_bytes
from primo_scale.methods.linear_algebra import FLOOR_SHARE, noise_norm
from primo_scale.methods.solve import PanelComponents, SolveInputs
from primo_scale.privacy.mechanism import NoiseScales, PublicBounds, Recipe
from primo_scale.storage.block_matrices import BlockLayout

SIZE = 300
LAMBDA = np.geomspace(0.05, 20, SIZE) / np.geomspace(0.05, 20, SIZE).mean()
NOISE = {
    "gram_sigma": 600.0,
    "cross_sigma": 5_000.0,
    "eigenvalue": 2_000.0,
    "effect_variance": 100.0,
    "residual_variance": 4e4,
}


def simulated(**noise: float) -> float:
    """Return R^2 of weights from a noisy X'X as a share of those from the exact one."""
    rng, effects = np.random.default_rng(3), 400
    rotation, _ = np.linalg.qr(rng.standard_normal((SIZE, SIZE)))
    values = LAMBDA * noise["eigenvalue"]
    S = (rotation * values) @ rotation.T
    root = rotation * np.sqrt(values)

    def explained(matrix, sigma, target, true):
        values, vectors = np.linalg.eigh(matrix)
        values = np.maximum(values, FLOOR_SHARE * noise_norm(sigma, SIZE))
        signal = noise["effect_variance"] * values
        covariance = (
            signal * values + noise["residual_variance"] * values + noise["cross_sigma"] ** 2
        )
        weights = vectors @ ((signal / covariance)[:, None] * (vectors.T @ target))
        return float((weights * (S @ true)).sum()), float((weights * (S @ weights)).sum())

    sums = np.zeros((2, 2))
    for _ in range(8):
        true = rng.normal(0, np.sqrt(noise["effect_variance"]), (SIZE, effects))
        target = S @ true + root @ rng.normal(0, np.sqrt(noise["residual_variance"]), true.shape)
        target += rng.normal(0, noise["cross_sigma"], true.shape)
        noisy = S + symmetric_noise(SIZE, noise["gram_sigma"], rng)
        sums[0] += explained(noisy, noise["gram_sigma"], target, true)
        sums[1] += explained(S, 0.0, target, true)
    squared = sums[:, 0] ** 2 / sums[:, 1]
    return float(squared[0] / squared[1])


def test_the_share_is_that_of_simulated_releases_with_all_and_with_half_the_noise():
    halved = NOISE | {"gram_sigma": NOISE["gram_sigma"] / 2}
    expected = [simulated(**noise) for noise in (NOISE, halved)]
    found = [share_with_noisy_gram(LAMBDA, size=SIZE, **noise) for noise in (NOISE, halved)]
    assert found == pytest.approx(expected, abs=0.015)
    assert max(found) < 0.91
    assert abs(found[1] - expected[0]) > 0.015


# NumPy decomposes a matrix in three others, which tracemalloc does not see.
MOST_BEYOND, LEAST_USED = 1.05, 0.3
CASES = {
    "one large block": ((1_000,), 2, "reuse-cov-gauss", None),
    "more phenotypes than variants": ((300,), 900, "reuse-cov-gauss", None),
    "many small blocks": ((50,) * 20, 400, "reuse-cov-gauss", None),
    "a large block after another": ((600, 700), 50, "reuse-cov-gauss", None),
    "a penalty for each block": ((600, 500), 100, "const-ssp-full", None),
    "effects of the prior": ((600, 500), 100, "reuse-cov-gauss", "known-noise"),
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
    chosen = ESTIMATORS.get(estimator, METHODS[method].estimator)
    said = solve_bytes(layout, METHODS[method], chosen) + effects_bytes(layout, sizes, chosen)
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
