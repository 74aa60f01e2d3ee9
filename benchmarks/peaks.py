"""Program: the speed of a kernel that only multiplies, in operations a second.

``python -m benchmarks.peaks --kernel NAME --threads N --out FILE``. Every thread multiplies two
different matrices of its own, so that no kernel can use symmetry: each pair of entries is 2
operations.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.measurement import seconds_of
from primo_scale.genotypes.coding import LARGEST_CODE
from primo_scale.kernels.product_kernels import choose_kernel
from primo_scale.kernels.products import Int8, ProductKernel, spread_rows

_ROWS, _PEOPLE = 2048, 8192  # a tile and a read of the default plan
_LEAST_SECONDS = 0.5


def full_product_rate(kernel: ProductKernel, threads: int) -> float:
    """Return the operations a second of all threads, in a run of at least half a second."""
    operands = [_operands() for _ in range(threads)]
    totals = [kernel.zeros(_ROWS, _ROWS) for _ in operands]
    with threadpool_limits(limits=1):
        for total, pair in zip(totals, operands, strict=True):
            kernel.add(total, *pair)
        once = _seconds_of(kernel, totals, operands, 1)
        products = max(1, round(_LEAST_SECONDS / once))
        seconds = _seconds_of(kernel, totals, operands, products)
    return 2 * threads * products * _ROWS**2 * _PEOPLE / seconds


def _operands() -> tuple[Int8, Int8]:
    rng = np.random.default_rng()
    left, right = (spread_rows(_ROWS, _PEOPLE) for _ in range(2))
    for codes in (left, right):
        codes[...] = rng.integers(-LARGEST_CODE, LARGEST_CODE + 1, codes.shape, dtype=np.int8)
    return left, right


def _seconds_of(
    kernel: ProductKernel, totals: list[object], operands: list[tuple[Int8, Int8]], products: int
) -> float:
    def work(total: object, pair: tuple[Int8, Int8]) -> None:
        for _ in range(products):
            kernel.add(total, *pair)

    with ThreadPoolExecutor(len(totals)) as threads:
        return seconds_of(lambda: list(threads.map(work, totals, operands)))


@click.command()
@click.option("--kernel", required=True)
@click.option("--threads", type=int, required=True)
@click.option("--repetitions", default=5, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), required=True)
def main(kernel: str, threads: int, repetitions: int, out: Path) -> None:
    """Measure one kernel."""
    chosen = choose_kernel(kernel, LARGEST_CODE)
    rates = [full_product_rate(chosen, threads) for _ in range(repetitions)]
    out.write_text(json.dumps(rates))


if __name__ == "__main__":
    main()
