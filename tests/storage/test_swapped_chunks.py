"""Exchanged chunks are detected in every kind of store and by every way of reading."""

import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import zarr
from support.small_cohort import write_cohort
from support.stores import VALUES, flip_a_bit, swap, write_store

from primo_scale.errors import DamagedChunk, InputError
from primo_scale.genotypes.ingest import ingest
from primo_scale.genotypes.source import SourceFiles
from primo_scale.genotypes.store import open_genotype_store
from primo_scale.storage import groups

FINISHED = ["genotypes", "outcomes", "statistics", "private statistics"]


@pytest.mark.usefixtures("encrypted")
@pytest.mark.parametrize("kind", groups.FORMAT_VERSIONS)
@pytest.mark.parametrize("rows", [slice(0, 2), slice(0, 4)])
@pytest.mark.parametrize("other", ["a/c/1/0", "b/c/0/0"])
def test_a_swapped_pair_of_chunks_is_refused_by_name(tmp_path, kind, rows, other):
    path = write_store(tmp_path / "s.zarr", kind)
    np.testing.assert_array_equal(
        groups.read_block(groups.array_of(groups.open_group(path, kind), "a")), VALUES
    )
    swap(path / "a/c/0/0", path / other)
    with pytest.raises(DamagedChunk, match=rf"^{path}/a/c/[01]/0: a stored chunk is damaged"):
        groups.read_block(groups.array_of(groups.open_group(path, kind), "a"), (rows, slice(None)))


@pytest.mark.parametrize("kind", groups.FORMAT_VERSIONS)
def test_swapped_and_changed_columns_of_text_are_refused(tmp_path, kind):
    path = write_store(tmp_path / "s.zarr", kind)
    swap(path / "names/c/0", path / "others/c/0")
    for name in ("names", "others"):
        with pytest.raises(DamagedChunk, match=rf"{name}/c/0: a stored chunk is damaged"):
            groups.read_strings(groups.open_group(path, kind), name)
    swap(path / "names/c/0", path / "others/c/0")
    flip_a_bit(path / "names/c/0")
    with pytest.raises(InputError, match="damaged"):
        groups.read_strings(groups.open_group(path, kind), "names")


@pytest.mark.usefixtures("encrypted")
@pytest.mark.parametrize("kind", FINISHED)
def test_a_chunk_of_the_same_key_in_another_store_is_refused(tmp_path, kind):
    path = write_store(tmp_path / "s.zarr", kind)
    shutil.copy(write_store(tmp_path / "t.zarr", kind, 7) / "a/c/0/0", path / "a/c/0/0")
    with pytest.raises(DamagedChunk, match=r"s\.zarr/a/c/0/0"):
        groups.read_block(groups.array_of(groups.open_group(path, kind), "a"))


@pytest.mark.parametrize("kind", FINISHED)
def test_zarr_alone_reads_finished_stores(tmp_path, kind):
    group = zarr.open_group(write_store(tmp_path / "s.zarr", kind), mode="r")
    np.testing.assert_array_equal(group["a"][:], VALUES)
    assert group["names"][:].tolist() == ["x0", "y"]


@pytest.mark.parametrize("kind", groups.FORMAT_VERSIONS)
def test_a_store_of_the_previous_format_version_is_refused(tmp_path, kind):
    path = write_store(tmp_path / "s.zarr", kind)
    zarr.open_group(path).attrs[groups.VERSION_ATTRIBUTE] = groups.FORMAT_VERSIONS[kind] - 1
    with pytest.raises(InputError, match="unknown format version"):
        groups.open_group(path, kind)


def read_all(path: Path) -> None:
    store = open_genotype_store(path)
    assert len(store.samples) and len(store.variants)
    counts = groups.array_of(groups.open_group(path, "genotypes"), "genotype_counts")
    assert len(groups.read_block(counts))
    store.read_packed(slice(None), slice(None))


@pytest.mark.slow
def test_every_swapped_pair_of_equal_size_in_a_genotype_store_is_refused(tmp_path):
    cohort, path = write_cohort(tmp_path / "cohort") / "cohort", tmp_path / "genotypes.zarr"
    ingest(SourceFiles((cohort,)), path, chunk_shape=(2, 8))
    read_all(path)
    chunks = [chunk for chunk in path.glob("*/c/**/*") if chunk.is_file()]
    chunks.sort(key=lambda chunk: (chunk.stat().st_size, chunk))
    tried = set()
    for one, other in pairwise(chunks):
        same_size = one.stat().st_size == other.stat().st_size
        if not same_size or one.read_bytes() == other.read_bytes():
            continue
        swap(one, other)
        with pytest.raises(DamagedChunk, match=r"genotypes\.zarr/\w+/c/[\d/]+: a stored chunk"):
            read_all(path)
        swap(one, other)
        tried.add(one.relative_to(path).parts[0])
    assert {"genotypes", "variant_allele1"} <= tried
    read_all(path)
