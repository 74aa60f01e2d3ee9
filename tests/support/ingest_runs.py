"""Ingests of fixtures, and what other programs read from them."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bed_reader
import dask.array
import numpy as np
import xarray
import zarr

from primo_scale.genotypes.filters import NO_LISTS, Selection
from primo_scale.genotypes.ingest import ingest
from primo_scale.genotypes.source import SourceFiles
from primo_scale.genotypes.store import GenotypeStore

FORMATS = Path(__file__).resolve().parents[1] / "genotypes" / "formats"


def run(
    prefix: Path | list[Path] | SourceFiles,
    destination: Path,
    selection: Selection = NO_LISTS,
    chunk_shape: tuple[int, int] = (16, 12),
    **options: Any,
) -> GenotypeStore:
    """Ingest a fileset, several or other files in small chunks."""
    if not isinstance(prefix, SourceFiles):
        prefix = SourceFiles(tuple(prefix) if isinstance(prefix, list) else (prefix,))
    return ingest(prefix, destination, selection=selection, chunk_shape=chunk_shape, **options)


class Stop(Exception):
    """Interruption of an ingest."""


def stop_after(partitions: int) -> Callable[[int, int], None]:
    def on_progress(done: int, total: int) -> None:
        if done >= partitions:
            raise Stop

    return on_progress


def bed_reader_dosages(prefix: Path) -> np.ndarray:
    values = bed_reader.open_bed(f"{prefix}.bed", count_A1=True).read(dtype="int8").T
    return np.where(values == -127, np.int8(-1), values)


def split_by_chromosome(base: Path, directory: Path) -> list[Path]:
    lines = Path(f"{base}.bim").read_text().splitlines(keepends=True)
    content = Path(f"{base}.bed").read_bytes()
    width = (len(content) - 3) // len(lines)
    prefixes = []
    for chromosome in dict.fromkeys(line.split()[0] for line in lines):
        rows = [i for i, line in enumerate(lines) if line.split()[0] == chromosome]
        prefix = directory / f"study.chr{chromosome}"
        Path(f"{prefix}.bim").write_text("".join(lines[i] for i in rows))
        cut = b"".join(content[3 + i * width : 3 + (i + 1) * width] for i in rows)
        Path(f"{prefix}.bed").write_bytes(content[:3] + cut)
        shutil.copy(f"{base}.fam", f"{prefix}.fam")
        prefixes.append(prefix)
    return prefixes


def stored(store: GenotypeStore, name: str) -> np.ndarray:
    """Return an array of a store, as Zarr alone reads it."""
    return np.asarray(zarr.open_group(store.path, mode="r")[name])


def read_plink1_bin(prefix: Path, chunks: tuple[int, int]) -> xarray.DataArray:
    """Read a fileset into an array as the function of this name in pandas-plink does."""
    with bed_reader.open_bed(f"{prefix}.bed") as bed:
        first = bed.read(dtype="float32")
    bim, fam = (np.loadtxt(f"{prefix}.{end}", dtype=str, ndmin=2).T for end in ("bim", "fam"))
    columns = {
        "sample": {"fid": fam[0], "iid": fam[1], "gender": fam[4]},
        "variant": {
            "chrom": bim[0], "snp": bim[1], "cm": bim[2].astype(float), "pos": bim[3].astype(int),
            "a0": bim[4], "a1": bim[5],
        },
    }  # fmt: skip
    return xarray.DataArray(
        dask.array.from_array(2 - first, chunks=chunks),
        dims=tuple(columns),
        coords={
            name: (d, values) for d, named in columns.items() for name, values in named.items()
        },
    )
