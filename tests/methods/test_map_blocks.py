"""Small LD blocks are solved side by side on one BLAS thread each, and large ones alone on all."""

import threading

from threadpoolctl import threadpool_info

from primo_scale.methods import map_blocks as module
from primo_scale.methods.map_blocks import LARGEST_SIDE_BY_SIDE, map_blocks

SMALL, LARGE = LARGEST_SIDE_BY_SIDE, LARGEST_SIDE_BY_SIDE + 1


def test_each_block_has_its_threads_and_results_keep_their_order(monkeypatch) -> None:
    monkeypatch.setattr(module, "usable_cpus", lambda: 2)
    both_small = threading.Barrier(2, timeout=30)

    def observe(block):
        if sizes[block] == SMALL:
            both_small.wait()  # fails unless another small block is at work
        found = {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}
        return block, found

    sizes = (SMALL, LARGE, SMALL, LARGE)
    assert map_blocks(observe, sizes) == [(0, {1}), (1, {2}), (2, {1}), (3, {2})]
