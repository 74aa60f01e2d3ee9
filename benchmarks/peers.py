"""Programs: the same Gram matrix, or the same decoding, by other programs; and our decoding.

``python -m benchmarks.peers dask --codes PATH --dtype float32 --out FILE`` and so on. All of them
multiply the codes -1, 0 and 1, for which alone float32 is exact, and report the sum of all entries
of X'X, to be compared with that of our accumulation without ``--ref-freq``.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click
import numpy as np
import zarr

from benchmarks.measurement import wall_seconds
from primo_scale.genotypes.coding import uninformative_coding
from primo_scale.genotypes.store import GenotypeStore, open_genotype_store
from primo_scale.kernels.packed import decode, decode_into, packed_width
from primo_scale.kernels.products import spread_rows
from primo_scale.machine import usable_cpus

_FLOATS = click.Choice(["float32", "float64"])
_PATH = click.Path(path_type=Path)
_READ_PEOPLE = 8192
_READ_VARIANTS = 2048


def people_by_variants(store: GenotypeStore, start: int, count: int) -> np.ndarray[Any, Any]:
    """Return the codes of some people, int8, shape (people, variants)."""
    stop = min(start + count, store.n_samples)
    packed = store.read_packed(slice(0, store.n_variants), slice(start, stop))
    table = uninformative_coding(store.n_variants).code_table
    return np.ascontiguousarray(decode(packed, table, stop - start).T)


def _report(
    out: Path, product: Callable[[], np.ndarray[Any, Any]], repetitions: int, **facts: object
) -> None:
    """Time a product, and write the times and the sum of its entries."""
    last: list[np.ndarray[Any, Any]] = []

    def run() -> None:
        last[:] = [product()]

    seconds = wall_seconds(run, repetitions)
    # Rounded, because scikit-learn divides by n, and the product with n is not quite an integer.
    total = int(np.rint(last[0].astype(np.float64)).sum())
    out.write_text(json.dumps({"seconds": seconds, "gram_sum": total, **facts}))


@click.group()
def main() -> None:
    """Time one peer."""


@main.command()
@click.option("--store", type=_PATH, required=True)
@click.option("--codes", type=_PATH, required=True)
@click.option("--rows", type=int, required=True)
@click.option("--columns", type=int, required=True)
def codes(store: Path, codes: Path, rows: int, columns: int) -> None:
    """Write the codes for dask as a plain Zarr array, people by variants, int8, uncompressed.

    The number of people of a chunk is a multiple of 4, or that of all people. Nothing is timed.
    """
    shutil.rmtree(codes, ignore_errors=True)
    genotypes = open_genotype_store(store)
    array = zarr.create_array(
        codes,
        shape=(genotypes.n_samples, genotypes.n_variants),
        chunks=(rows, columns),
        dtype=np.int8,
        compressors=None,
    )
    for start in range(0, genotypes.n_samples, rows):
        array[start : start + rows] = people_by_variants(genotypes, start, rows)


@main.command()
@click.option("--codes", type=_PATH, required=True)
@click.option("--dtype", type=_FLOATS, required=True)
@click.option("--repetitions", default=5)
@click.option("--out", type=_PATH, required=True)
def dask(codes: Path, dtype: str, repetitions: int, out: Path) -> None:
    """Time ``(x.T @ x).compute()`` on a running cluster with one process for each CPU."""
    from dask import array
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=usable_cpus(),
            threads_per_worker=1,
            memory_limit=0,  # nothing is spilled or paused
            dashboard_address="127.0.0.1:0",
            local_directory=str(out.parent / "dask"),
        ) as cluster,
        Client(cluster),
    ):

        def product() -> np.ndarray[Any, Any]:
            x = array.from_zarr(str(codes)).astype(dtype)
            return np.asarray((x.T @ x).compute())

        _report(out, product, repetitions, chunks=list(zarr.open_array(codes, mode="r").chunks))


@main.command("in-memory")
@click.option("--store", type=_PATH, required=True)
@click.option("--with", "library", type=click.Choice(["numpy", "scikit-learn"]), required=True)
@click.option("--dtype", type=_FLOATS, required=True)
@click.option("--repetitions", default=5)
@click.option("--out", type=_PATH, required=True)
def in_memory(store: Path, library: str, dtype: str, repetitions: int, out: Path) -> None:
    """Time the product alone, of a matrix that is already decoded and in memory."""
    genotypes = open_genotype_store(store)
    x = np.empty((genotypes.n_samples, genotypes.n_variants), dtype=dtype)
    for start in range(0, len(x), _READ_PEOPLE):
        x[start : start + _READ_PEOPLE] = people_by_variants(genotypes, start, _READ_PEOPLE)
    if library == "numpy":
        _report(out, lambda: np.asarray(x.T @ x), repetitions)
        return
    from sklearn.covariance import empirical_covariance

    def product() -> np.ndarray[Any, Any]:
        return np.asarray(empirical_covariance(x, assume_centered=True) * len(x))

    _report(out, product, repetitions)


@main.command("bed-reader")
@click.option("--bed", type=_PATH, required=True)
@click.option("--repetitions", default=5)
@click.option("--out", type=_PATH, required=True)
def bed_reader(bed: Path, repetitions: int, out: Path) -> None:
    """Time bed-reader, which decodes a whole .bed to int8 on all CPUs."""
    from bed_reader import open_bed

    with open_bed(bed, num_threads=usable_cpus()) as reader:
        seconds = wall_seconds(lambda: reader.read(dtype="int8"), repetitions)
        genotypes = reader.iid_count * reader.sid_count
    out.write_text(json.dumps({"seconds": seconds, "genotypes": genotypes}))


@main.command("our-decoding")
@click.option("--store", type=_PATH, required=True)
@click.option("--repetitions", default=5)
@click.option("--out", type=_PATH, required=True)
def our_decoding(store: Path, repetitions: int, out: Path) -> None:
    """Read a whole store and decode it to int8, on all CPUs, tile by tile as workers do."""
    genotypes = open_genotype_store(store)
    table = uninformative_coding(genotypes.n_variants).code_table
    tiles = [
        (slice(v, min(v + _READ_VARIANTS, genotypes.n_variants)),
         slice(p, min(p + _READ_PEOPLE, genotypes.n_samples)))
        for v in range(0, genotypes.n_variants, _READ_VARIANTS)
        for p in range(0, genotypes.n_samples, _READ_PEOPLE)
    ]  # fmt: skip
    threads = usable_cpus()

    def work(first: int) -> None:
        memory = spread_rows(_READ_VARIANTS, 4 * packed_width(_READ_PEOPLE))
        for variants, people in tiles[first::threads]:
            decode_into(memory, genotypes.read_packed(variants, people), table[variants])

    def run() -> None:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, range(threads)))

    seconds = wall_seconds(run, repetitions)
    count = genotypes.n_samples * genotypes.n_variants
    out.write_text(json.dumps({"seconds": seconds, "genotypes": count}))


if __name__ == "__main__":
    main()
