"""Eigenvectors are those of SciPy's call of the same routine."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

from primo_scale.methods.eigenvectors import eigenvectors


@pytest.mark.parametrize("size", [1, 2, 7, 300])
def test_the_same_bits_as_scipy(size) -> None:
    half = np.random.default_rng(size).normal(size=(size, size))
    symmetric = half + half.T
    expected = scipy.linalg.eigh(symmetric, driver="evr")
    for found, wanted in zip(eigenvectors(symmetric.copy()), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_only_a_matrix_in_c_order_is_destroyed() -> None:
    symmetric = np.asfortranarray([[2.0, 1.0], [1.0, 2.0]])
    values, vectors = eigenvectors(symmetric)
    np.testing.assert_array_equal(symmetric, [[2, 1], [1, 2]])
    np.testing.assert_allclose(values, [1, 3])
    np.testing.assert_allclose(np.abs(vectors), np.sqrt(0.5))
