"""Eigenvectors, blocks side by side, and the norm of noise."""

import threading

import numpy as np
import pytest
import scipy.linalg
from threadpoolctl import threadpool_info

from primo_scale.methods import linear_algebra as module
from primo_scale.methods.linear_algebra import (
    LARGEST_SIDE_BY_SIDE,
    eigenvectors,
    floored_at_zero,
    map_blocks,
    noise_norm,
)


@pytest.mark.parametrize("largest", [0, 2048])
@pytest.mark.parametrize("n_columns", [1, 3, 200])
@pytest.mark.parametrize("size", [1, 2, 7, 300])
def test_products_are_those_of_scipys_eigenvectors(size, n_columns, largest, monkeypatch) -> None:
    monkeypatch.setattr(module, "LARGEST_SIDE_BY_SIDE", largest)
    symmetric, columns = random_problem(size, n_columns)
    expected, vectors = scipy.linalg.eigh(symmetric)
    values, found = eigenvectors(symmetric.copy(), n_columns)
    np.testing.assert_allclose(values, expected, atol=1e-12 * np.abs(expected).max())
    coordinates = found.coordinates(columns)
    np.testing.assert_allclose(np.abs(coordinates), np.abs(vectors.T @ columns), atol=1e-9)
    np.testing.assert_allclose(found.combinations(coordinates), columns, atol=1e-11)
    again = found.combinations(values[:, None] * coordinates)
    np.testing.assert_allclose(again, symmetric @ columns, atol=1e-10)


def test_a_matrix_on_which_mrrr_fails_is_decomposed(monkeypatch) -> None:
    monkeypatch.setattr(module, "LARGEST_SIDE_BY_SIDE", 0)
    symmetric, columns = random_problem(50, 3)
    expected = eigenvectors(symmetric.copy(), 3)
    call, failed = module._call, []

    def fail(name, *arguments):
        if name != "dstemr":
            return call(name, *arguments)
        failed.append(name)
        return 22

    monkeypatch.setattr(module, "_call", fail)
    found = eigenvectors(symmetric.copy(), 3)
    assert failed == ["dstemr"]
    np.testing.assert_allclose(found[0], expected[0])
    in_both = (np.abs(vectors.coordinates(columns)) for _, vectors in (found, expected))
    np.testing.assert_allclose(*in_both, atol=1e-10)


def test_only_a_matrix_in_c_order_is_destroyed() -> None:
    symmetric = np.asfortranarray([[2.0, 1.0], [1.0, 2.0]])
    values, vectors = eigenvectors(symmetric, 2)
    np.testing.assert_array_equal(symmetric, [[2, 1], [1, 2]])
    np.testing.assert_allclose(values, [1, 3])
    np.testing.assert_allclose(np.abs(vectors.tridiagonal), np.sqrt(0.5))


def random_problem(size, n_columns):
    rng = np.random.default_rng(size)
    half = rng.normal(size=(size, size))
    return half + half.T, rng.normal(size=(size, n_columns))


def test_each_block_has_its_threads_and_results_keep_their_order(monkeypatch) -> None:
    small, large = LARGEST_SIDE_BY_SIDE, LARGEST_SIDE_BY_SIDE + 1
    monkeypatch.setattr(module, "usable_cpus", lambda: 2)
    both_small = threading.Barrier(2, timeout=30)

    def observe(block):
        if sizes[block] == small:
            both_small.wait()  # fails unless another small block is at work
        found = {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}
        return block, found

    sizes = (small, large, small, large)
    assert map_blocks(observe, sizes) == [(0, {1}), (1, {2}), (2, {1}), (3, {2})]


def test_noise_norm_bounds_the_spectral_norm_of_svec_noise():
    rng = np.random.default_rng(6)
    for size in (1, 5, 60):
        E = rng.standard_normal((200, size, size))
        norms = np.abs(np.linalg.eigvalsh((E + E.transpose(0, 2, 1)) / 2)).max(axis=1)
        assert (norms <= noise_norm(1.0, size)).all()
        assert (norms > 0.3 * noise_norm(1.0, size)).any(), "the bound would be useless"


def test_negative_and_negligible_eigenvalues_count_as_zero():
    values = floored_at_zero(np.array([-3.0, 0.0, 1e-17, 2.0]))
    np.testing.assert_array_equal(values, [0, 0, 0, 2])
