"""Program: how fast a kernel multiplies when it does nothing else, in operations a second.

``python -m benchmarks.peaks --kernel NAME --threads N --out FILE``. Every thread multiplies two
different matrices of its own, so that no symmetry is used: 2 operations an entry pair, all of them
counted. `none` as the name lists the kernels that this machine can run.
"""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import click
import numpy as np
from threadpoolctl import threadpool_limits

from primo_scale.genotypes.coding import LARGEST_CODE
from primo_scale.kernels import AUTOMATIC, NAMES
from primo_scale.kernels.choice import choose_kernel
from primo_scale.kernels.products import Int8, ProductKernel, spread_rows

_ROWS, _PEOPLE = 2048, 8192  # a tile and a read of the default plan
_LEAST_SECONDS = 0.5


def available_kernels() -> list[str]:
    """Return the names of the kernels that this machine can run."""
    from primo_scale.errors import UsageError

    found = []
    for name in NAMES:
        try:
            choose_kernel(name, LARGEST_CODE)
        except UsageError:
            continue
        found.append(name)
    return [name for name in found if name != AUTOMATIC]


def full_product_rate(kernel: ProductKernel, threads: int) -> float:
    """Operations a second of all threads together, in one run of half a second or more."""
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

    workers = [
        threading.Thread(target=work, args=each) for each in zip(totals, operands, strict=True)
    ]
    start = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return time.perf_counter() - start


@click.command()
@click.option("--kernel", required=True)
@click.option("--threads", type=int, required=True)
@click.option("--repetitions", default=5, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), required=True)
def main(kernel: str, threads: int, repetitions: int, out: Path) -> None:
    """Measure one kernel, or list them."""
    if kernel == "none":
        out.write_text(json.dumps(available_kernels()))
        return
    chosen = choose_kernel(kernel, LARGEST_CODE)
    rates = [full_product_rate(chosen, threads) for _ in range(repetitions)]
    out.write_text(json.dumps(rates))


if __name__ == "__main__":
    main()
