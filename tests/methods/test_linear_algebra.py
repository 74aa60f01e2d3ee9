"""LD blocks side by side, and the norm of noise."""

import threading

import numpy as np
from threadpoolctl import threadpool_info

from primo_scale.methods import linear_algebra as module
from primo_scale.methods.linear_algebra import LARGEST_SIDE_BY_SIDE, map_blocks, noise_norm


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
