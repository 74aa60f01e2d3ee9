"""How long the Gram matrix takes, beside numpy in memory on the same data in the same run.

``python -m benchmarks.accumulate [--samples N --variants D]``
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable

import click
import numpy as np
from threadpoolctl import threadpool_limits

from primo_scale.kernels.gram import add_gram
from primo_scale.kernels.packed import decode

_REPETITIONS = 5
_ROWS = 8192


def product_of_codes(packed: np.ndarray, table: np.ndarray, n: int) -> np.ndarray:
    """Decode and multiply as a worker does, tile by tile of one block."""
    total = np.zeros((len(packed), len(packed)), dtype=np.int64)
    for start in range(0, n, _ROWS):
        count = min(_ROWS, n - start)
        codes = decode(packed[:, start // 4 : -(-(start + count) // 4)], table, count)
        add_gram(total, codes, codes, 1)
    return total


def numpy_float64(packed: np.ndarray, table: np.ndarray, n: int) -> np.ndarray:
    """The plain way: everything as float64, then one product."""
    x = decode(packed, table, n).astype(np.float64)
    return x @ x.T


def median_seconds(function: Callable[[], object]) -> float:
    """Median wall time of five calls after a warm-up."""
    function()
    times = []
    for _ in range(_REPETITIONS):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


@click.command()
@click.option("--samples", default=20_000, show_default=True)
@click.option("--variants", default=2_048, show_default=True)
def main(samples: int, variants: int) -> None:
    """Time the Gram kernel on random genotypes and print a table."""
    rng = np.random.default_rng(0)
    packed = rng.integers(0, 256, (variants, -(-samples // 4)), dtype=np.uint8)
    table = np.tile(np.array([1, 0, 0, -1], dtype=np.int8), (variants, 1))
    threads = len(os.sched_getaffinity(0))
    click.echo(f"{platform.processor() or platform.machine()}, {threads} CPUs, random genotypes")
    click.echo(f"n = {samples}, d = {variants}; median of {_REPETITIONS}; 2 n d^2 / time")
    operations = 2 * samples * variants**2
    with threadpool_limits(limits=threads):
        for name, function in (("decode + add_gram", product_of_codes), ("float64", numpy_float64)):
            seconds = median_seconds(lambda f=function: f(packed, table, samples))
            click.echo(f"{name:20} {seconds:8.3f} s  {operations / seconds / 1e9:8.1f} GOP/s")


if __name__ == "__main__":
    main()
