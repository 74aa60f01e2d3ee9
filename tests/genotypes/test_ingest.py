"""Ingest of every fixture, compared with bed-reader and plink2, and with interruptions."""

from __future__ import annotations

import csv
import gzip
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import bed_reader
import numpy as np
import pytest
import zarr

from primo_scale import machine
from primo_scale.errors import InputError, ResourceError, UsageError
from primo_scale.genotypes import bed, ingest_plan, orientation, partitions
from primo_scale.genotypes import ingest as ingest_module
from primo_scale.genotypes.dosage import open_genotypes
from primo_scale.genotypes.filters import Selection
from primo_scale.genotypes.ingest import finalise, ingest, initialise, write_one
from primo_scale.genotypes.ingest_plan import plan_ingest
from primo_scale.genotypes.store import GenotypeStore, open_genotype_store

EDGE = Path(__file__).resolve().parents[1] / "reference/data/edge"


def stored(store: GenotypeStore, name: str) -> np.ndarray:
    """Return an array of a store, as Zarr alone reads it."""
    return np.asarray(zarr.open_group(store.path, mode="r")[name])


def observed_behaviour() -> list[tuple[str, bool]]:
    """Return (name, whether plink2 loads it) of the fixtures that are whole filesets."""
    if not EDGE.is_dir():
        return []
    with (EDGE / "expected_behaviour.tsv").open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    key = "plink2_--export_A-transpose"
    return [(row["fixture"], row[key].startswith("rc=0")) for row in rows]


ACCEPTED = [name for name, accepted in observed_behaviour() if accepted]
REFUSED = [name for name, accepted in observed_behaviour() if not accepted]


def run(
    prefix: Path | list[Path],
    destination: Path,
    selection: Selection | None = None,
    chunk_shape: tuple[int, int] = (16, 12),
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> GenotypeStore:
    return ingest(
        prefix if isinstance(prefix, list) else [prefix],
        destination,
        selection=selection or Selection(),
        chunk_shape=chunk_shape,
        on_progress=on_progress,
    )


def bed_reader_dosages(prefix: Path) -> np.ndarray:
    values = bed_reader.open_bed(f"{prefix}.bed", count_A1=True).read(dtype="int8").T
    return np.where(values == -127, np.int8(-1), values)


ONE_COPY = ("Y", "MT")


def traw_dosages(path: Path) -> np.ndarray:
    """Return copies of A1 from a .traw file, which counts A2, without one-copy chromosomes."""
    rows = [line.split("\t") for line in path.read_text().splitlines()[1:]]
    values = [row[6:] for row in rows if row[0] not in ONE_COPY]
    return np.array([[-1 if v == "NA" else 2 - int(v) for v in row] for row in values], np.int8)


def copy_fileset(source: Path, target: Path) -> Path:
    for kind in (".bed", ".bim", ".fam"):
        shutil.copy(f"{source}{kind}", f"{target}{kind}")
    return target


@pytest.fixture
def base(reference: Path, tmp_path: Path) -> Path:
    return copy_fileset(reference / "data/edge/plink_made/base_n43_m61", tmp_path / "base")


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted_filesets_are_read_as_in_plink2(
    reference: Path, tmp_path: Path, name: str
) -> None:
    prefix = reference / "data/edge" / name
    store = run(prefix, tmp_path / "g.zarr", chunk_shape=(256, 36))
    dosages = open_genotypes(store.path).values
    np.testing.assert_array_equal(dosages, traw_dosages(Path(f"{prefix}.traw")))
    expected = bed_reader_dosages(prefix)
    skipped = store.input_warnings.negative_positions + sum(c.found for c in store.filter_counts)
    assert len(dosages) == len(expected) - skipped
    if skipped == 0:
        np.testing.assert_array_equal(dosages, expected)


@pytest.mark.parametrize("name", REFUSED)
def test_filesets_that_plink2_refuses_are_refused(
    reference: Path, tmp_path: Path, name: str
) -> None:
    with pytest.raises(InputError) as caught:
        run(reference / "data/edge" / name, tmp_path / "g.zarr")
    assert name.split("/")[-1] in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("prefix", "truth"),
    [
        ("1000g_eur343_chr22/eur343_chr22", "1000g_eur343_chr22/truth/chr22.gcount.gz"),
        ("hapmap3_chr1-10/hm3_chr1-10", "hapmap3_chr1-10/truth/hm3.gcount.gz"),
    ],
)
def test_genotype_counts_equal_those_of_plink2(
    reference: Path, tmp_path: Path, prefix: str, truth: str
) -> None:
    real = reference / "data/real"
    store = run(real / prefix, tmp_path / "g.zarr", chunk_shape=(2048, 128))
    with gzip.open(real / truth, "rt") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    # REF is .bim column 6 (A2); raw values are hom A1, missing, het, hom A2.
    columns = ["TWO_ALT_GENO_CTS", "MISSING_CT", "HET_REF_ALT_CTS", "HOM_REF_CT"]
    expected = [[int(row[column]) for column in columns] for row in rows]
    np.testing.assert_array_equal(stored(store, "genotype_counts"), expected)
    assert store.variants.identifier.tolist() == [row["ID"] for row in rows]


def test_chunk_shape_changes_neither_genotypes_nor_identity(base: Path, tmp_path: Path) -> None:
    stores = [
        run(base, tmp_path / f"{v}x{s}.zarr", chunk_shape=(v, s))
        for v, s in [(16, 4), (7, 20), (2048, 8192)]
    ]
    arrays = [open_genotypes(store.path).values for store in stores]
    for array in arrays:
        np.testing.assert_array_equal(array, bed_reader_dosages(base))
    assert len({store.identity_digest for store in stores}) == 1
    assert len({store.cohort_digest for store in stores}) == 1


def test_the_slab_size_does_not_change_the_store(
    reference: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = reference / "data/edge/plink_made/degenerate"
    whole = run(prefix, tmp_path / "whole.zarr")
    monkeypatch.setattr(partitions, "SLAB_BYTES", 1)
    monkeypatch.setattr(bed, "RAW_SLAB_BYTES", 1)
    pieces = run(prefix, tmp_path / "pieces.zarr")
    np.testing.assert_array_equal(open_genotypes(pieces.path).values, bed_reader_dosages(prefix))
    for name in ("genotype_counts", "chunk_crc32c"):
        np.testing.assert_array_equal(stored(pieces, name), stored(whole, name))
    assert pieces.input_warnings == whole.input_warnings


@pytest.mark.parametrize("name", ["base_n43_m61", "samplemajor_n43_m61"])
@pytest.mark.parametrize(("rows", "chunks"), [(1, 1), (5, 2), (7, 3), (64, 64)])
def test_slabs_of_any_shape_give_the_same_genotypes(
    reference: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    rows: int,
    chunks: int,
) -> None:
    """61 variants and 43 people do not fill a slab or a chunk; this includes subsets of them."""
    monkeypatch.setattr(partitions, "_SLAB_ROWS", rows)
    monkeypatch.setattr(partitions, "_MOST_CHUNKS", chunks)
    prefix = reference / "data/edge/plink_made" / name
    expected = bed_reader_dosages(prefix)
    whole = run(prefix, tmp_path / "whole.zarr", chunk_shape=(16, 8))
    np.testing.assert_array_equal(open_genotypes(whole.path).values, expected)
    counts = [(expected == code).sum(axis=1) for code in (2, -1, 1, 0)]
    np.testing.assert_array_equal(stored(whole, "genotype_counts"), np.stack(counts, axis=1))
    remove, exclude = tmp_path / "remove", tmp_path / "exclude"
    remove.write_text(f"{whole.samples.family[6]} {whole.samples.individual[6]}\n")
    exclude.write_text(whole.variants.identifier[20])
    fewer = run(prefix, tmp_path / "fewer.zarr", Selection(remove=remove, exclude=exclude), (16, 8))
    np.testing.assert_array_equal(
        open_genotypes(fewer.path).values, np.delete(np.delete(expected, 20, axis=0), 6, axis=1)
    )


def test_filters_select_rows_and_columns(base: Path, tmp_path: Path) -> None:
    keep, exclude = tmp_path / "keep", tmp_path / "exclude"
    whole = run(base, tmp_path / "whole.zarr")
    kept = [1, 2, 7, 8, 9, 10, 11, 30, 42]
    keep.write_text(
        "".join(f"{whole.samples.family[i]} {whole.samples.individual[i]}\n" for i in kept)
    )
    exclude.write_text("\n".join(whole.variants.identifier[[0, 5, 60]]))
    store = run(base, tmp_path / "g.zarr", Selection(keep=keep, exclude=exclude))
    rows = np.delete(np.arange(61), [0, 5, 60])
    np.testing.assert_array_equal(
        open_genotypes(store.path).values, bed_reader_dosages(base)[np.ix_(rows, kept)]
    )
    assert store.samples.individual.tolist() == whole.samples.individual[kept].tolist()
    assert store.identity_digest != whole.identity_digest
    assert store.cohort_digest == whole.cohort_digest


class Stop(Exception):
    pass


def stop_after(partitions: int) -> Callable[[int, int], None]:
    def on_progress(done: int, total: int) -> None:
        if done >= partitions:
            raise Stop

    return on_progress


def test_a_stopped_run_continues(base: Path, tmp_path: Path) -> None:
    destination = tmp_path / "g.zarr"
    with pytest.raises(Stop):
        run(base, destination, on_progress=stop_after(2))
    assert not destination.exists()
    partial = tmp_path / "g.zarr.partial"
    before = (partial / "store.zarr/genotypes/c/1/0").stat().st_mtime_ns
    # A kill during the last partition leaves an incomplete chunk, a temporary file and no record.
    (partial / "partitions/0000003.npz").unlink(missing_ok=True)
    torn = partial / "store.zarr/genotypes/c/3"
    torn.mkdir(exist_ok=True)
    (torn / "0").write_bytes(b"torn")
    (torn / "1.abc.partial").write_bytes(b"")
    seen: list[int] = []
    store = run(base, destination, on_progress=lambda done, total: seen.append(done))
    assert seen in ([2, 3, 4], [3, 4])  # the third was in progress when the run was stopped
    assert (store.path / "genotypes/c/1/0").stat().st_mtime_ns == before
    assert not list(store.path.rglob("*.partial"))
    assert not partial.exists()
    np.testing.assert_array_equal(open_genotypes(store.path).values, bed_reader_dosages(base))


def test_no_thread_is_left_after_a_stop(base: Path, tmp_path: Path) -> None:
    with pytest.raises(Stop):
        run(base, tmp_path / "g.zarr", on_progress=stop_after(1))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ingest")]


KILLED_RUN = """
import os, signal, sys
from pathlib import Path
from primo_scale.genotypes.filters import Selection
from primo_scale.genotypes.ingest import ingest
def on_progress(done, total):
    if done == 2:
        os.kill(os.getpid(), signal.SIGKILL)
ingest([Path(sys.argv[1])], Path(sys.argv[2]), selection=Selection(), chunk_shape=(16, 12),
       on_progress=on_progress)
"""


def test_a_killed_ingest_can_be_continued(base: Path, tmp_path: Path) -> None:
    destination = tmp_path / "g.zarr"
    command = [sys.executable, "-c", KILLED_RUN, str(base), str(destination)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert not destination.exists()
    seen: list[int] = []
    store = run(base, destination, on_progress=lambda done, total: seen.append(done))
    assert seen[0] >= 2
    np.testing.assert_array_equal(open_genotypes(store.path).values, bed_reader_dosages(base))


def test_finalise_names_missing_partitions(base: Path, tmp_path: Path) -> None:
    plan = plan_ingest([base], tmp_path / "g.zarr", selection=Selection(), chunk_shape=(16, 12))
    plan.partial.mkdir()
    initialise(plan)
    write_one(plan, 0)
    write_one(plan, 3)
    with pytest.raises(InputError, match="missing: 1, 2"):
        finalise(plan)
    for number in (1, 2):
        write_one(plan, number)
    (plan.growing_store / "genotypes/c/3/2").unlink()
    with pytest.raises(InputError, match="missing: 3 "):
        finalise(plan)
    assert not plan.destination.exists()


def test_a_finished_store_is_reused_for_the_same_request_only(base: Path, tmp_path: Path) -> None:
    destination = tmp_path / "g.zarr"
    first = run(base, destination)
    touched = (destination / "zarr.json").stat().st_mtime_ns
    assert run(base, destination) == first
    assert (destination / "zarr.json").stat().st_mtime_ns == touched
    with pytest.raises(InputError, match="chunk shape"):
        run(base, destination, chunk_shape=(8, 12))
    (tmp_path / "out").write_text("rs486563")
    with pytest.raises(InputError, match="variants"):
        run(base, destination, Selection(exclude=tmp_path / "out"))


@pytest.mark.parametrize("stopped_after", [2, 4])
def test_a_changed_input_is_refused_by_name(base: Path, tmp_path: Path, stopped_after: int) -> None:
    """A change with equal size and time, after two of four partitions and after the end."""
    destination = tmp_path / "g.zarr"
    if stopped_after == 2:
        with pytest.raises(Stop):
            run(base, destination, on_progress=stop_after(2))
    else:
        run(base, destination)
    source = Path(f"{base}.bed")
    before = source.stat()
    content = bytearray(source.read_bytes())
    content[10] ^= 0xFF
    source.write_bytes(content)
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(InputError, match=r"base\.bed changed"):
        run(base, destination)


def test_a_rewritten_but_equal_input_is_accepted(base: Path, tmp_path: Path) -> None:
    store = run(base, tmp_path / "g.zarr")
    source = Path(f"{base}.bed")
    source.write_bytes(source.read_bytes())
    assert run(base, tmp_path / "g.zarr") == store


def test_recorded_hashes_equal_those_of_the_files(base: Path, tmp_path: Path) -> None:
    """This includes .bed files, which are hashed while they are copied."""
    prefixes = split_by_chromosome(base, tmp_path)
    out = tmp_path / "out"
    out.write_text("\n".join(Path(f"{prefixes[1]}.bim").read_text().split()[1::6]))
    whole = run(prefixes, tmp_path / "whole.zarr")
    fewer = run(prefixes, tmp_path / "fewer.zarr", Selection(exclude=out))  # one is not copied
    for store in (whole, fewer):
        recorded = zarr.open_group(store.path).attrs["sources"]
        assert len(recorded) == 3 * len(prefixes)
        for source in recorded:
            content = Path(source["path"]).read_bytes()
            assert source["sha256"] == hashlib.sha256(content).hexdigest()


def test_partitions_in_any_order_give_the_same_store(base: Path, tmp_path: Path) -> None:
    plan = plan_ingest([base], tmp_path / "g.zarr", selection=Selection(), chunk_shape=(16, 12))
    plan.partial.mkdir()
    initialise(plan)
    for number in (2, 0, 3, 1):
        write_one(plan, number)
    whole = run(base, tmp_path / "whole.zarr")
    assert finalise(plan).identity_digest == whole.identity_digest


def test_a_touched_bed_without_a_hash_counts_as_changed(base: Path, tmp_path: Path) -> None:
    """A .bed file is hashed while it is copied, so that a touched file may be another one."""
    with pytest.raises(Stop):
        run(base, tmp_path / "g.zarr", on_progress=stop_after(2))
    os.utime(f"{base}.bed")
    with pytest.raises(InputError, match=r"base\.bed changed"):
        run(base, tmp_path / "g.zarr")


def test_an_input_that_changes_during_the_run_is_refused(base: Path, tmp_path: Path) -> None:
    def change(done: int, total: int) -> None:
        if done == total:
            with Path(f"{base}.bim").open("a") as file:
                file.write("1\tlate\t0\t1\tA\tC\n")

    with pytest.raises(InputError, match="changed while it was read"):
        run(base, tmp_path / "g.zarr", on_progress=change)
    assert not (tmp_path / "g.zarr").exists()


def test_another_directory_at_the_destination_is_not_changed(base: Path, tmp_path: Path) -> None:
    (tmp_path / "g.zarr").mkdir()
    (tmp_path / "g.zarr/precious").write_text("data")
    with pytest.raises(InputError, match="not a finished genotype store"):
        run(base, tmp_path / "g.zarr")
    assert (tmp_path / "g.zarr/precious").read_text() == "data"


def split_by_chromosome(base: Path, directory: Path) -> list[Path]:
    """Split a variant-major fileset by chromosome, and return the prefixes."""
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


def test_filesets_of_several_chromosomes_are_joined(base: Path, tmp_path: Path) -> None:
    prefixes = split_by_chromosome(base, tmp_path)
    assert len(prefixes) > 5
    store = run(prefixes, tmp_path / "joined.zarr")
    np.testing.assert_array_equal(open_genotypes(store.path).values, bed_reader_dosages(base))
    whole = run(base, tmp_path / "whole.zarr")
    assert store.variants.identifier.tolist() == whole.variants.identifier.tolist()


def test_filesets_of_different_people_are_refused(base: Path, tmp_path: Path) -> None:
    first, second, *_ = split_by_chromosome(base, tmp_path)
    fam = Path(f"{second}.fam")
    lines = fam.read_text().splitlines(keepends=True)
    fam.write_text("".join([lines[0], lines[2], lines[1], *lines[3:]]))
    with pytest.raises(
        InputError, match=r"study\.chr2\.fam:2: .*found 1444 NA12750, expected 1346 NA12045"
    ):
        run([first, second], tmp_path / "g.zarr")


def test_a_chromosome_that_is_not_contiguous_is_refused(base: Path, tmp_path: Path) -> None:
    first, second, *_ = split_by_chromosome(base, tmp_path)
    for ending in (".bed", ".bim", ".fam"):
        shutil.copy(f"{first}{ending}", tmp_path / f"again{ending}")
    with pytest.raises(InputError, match="chromosome 1 is split"):
        run([first, second, tmp_path / "again"], tmp_path / "g.zarr")


def test_the_self_test_detects_a_wrong_allele(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swapped = {0b00: 0, 0b01: -1, 0b10: 1, 0b11: 2}
    monkeypatch.setattr(orientation, "_DEFINITION", swapped)
    with pytest.raises(InputError, match="differ from the source"):
        run(base, tmp_path / "g.zarr")
    assert not (tmp_path / "g.zarr").exists()


def test_too_little_disk_space_is_refused_before_any_partition(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "free_disk", lambda _: 1 << 10)
    with pytest.raises(ResourceError, match=r"1 KiB free; limit [0-9]+ KiB needed"):
        run(base, tmp_path / "g.zarr")


def test_a_full_disk_is_explained_and_the_run_can_continue(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(ingest_module, "write_partition", full)
        with pytest.raises(ResourceError, match="the disk is full"):
            run(base, tmp_path / "g.zarr")
    assert not (tmp_path / "g.zarr").exists()
    run(base, tmp_path / "g.zarr")


@pytest.mark.parametrize("shape", [(0, 4), (4, 6), (4, 0)])
def test_impossible_chunks_are_a_usage_error(
    base: Path, tmp_path: Path, shape: tuple[int, int]
) -> None:
    with pytest.raises(UsageError):
        run(base, tmp_path / "g.zarr", chunk_shape=shape)


def test_reading_a_damaged_chunk_of_genotypes_is_an_error(base: Path, tmp_path: Path) -> None:
    store = run(base, tmp_path / "g.zarr")
    chunk = store.path / "genotypes/c/0/0"
    content = bytearray(chunk.read_bytes())
    content[5] ^= 1
    chunk.write_bytes(content)
    with pytest.raises(InputError, match="damaged"):
        open_genotype_store(store.path).read_packed(slice(0, 4), slice(0, 4))


def test_padding_bits_of_the_store_are_zero(reference: Path, tmp_path: Path) -> None:
    store = run(reference / "data/edge/plink_made/padbits_nonzero_n41", tmp_path / "g.zarr")
    assert not (store.read_packed(slice(None), slice(40, 41)) & 0b11111100).any()


def random_fileset(prefix: Path, n_people: int, n_variants: int) -> Path:
    """Write a fileset of random genotypes."""
    Path(f"{prefix}.fam").write_text("".join(f"0 {i + 1} 0 0 0 -9\n" for i in range(n_people)))
    Path(f"{prefix}.bim").write_text("".join(f"1 v{j} 0 {j + 1} A C\n" for j in range(n_variants)))
    content = np.random.default_rng(1).bytes(n_variants * -(-n_people // 4))
    Path(f"{prefix}.bed").write_bytes(b"\x6c\x1b\x01" + content)
    return prefix


@pytest.mark.parametrize("kept", ["everyone", "every third person"])
def test_genotypes_in_memory_stay_within_the_read_budget(tmp_path: Path, kept: str) -> None:
    n_people, n_variants = 40_000, 4 * 2048
    prefix = random_fileset(tmp_path / "big", n_people, n_variants)
    keep = None
    if kept != "everyone":
        keep = tmp_path / "keep"
        keep.write_text("".join(f"0 {i + 1}\n" for i in range(0, n_people, 3)))
    run(prefix, tmp_path / "warm.zarr", Selection(keep=keep), chunk_shape=(2048, 8192))
    peak = 0

    def watch(done: int, total: int) -> None:
        nonlocal peak
        if done == 0:  # tables and imports are in memory; genotypes follow
            tracemalloc.start()
        elif done == total:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()

    run(prefix, tmp_path / "g.zarr", Selection(keep=keep), (2048, 8192), watch)
    assert Path(f"{prefix}.bed").stat().st_size > ingest_plan.READ_BUDGET_BYTES
    assert 2 << 20 < peak <= ingest_plan.READ_BUDGET_BYTES


@pytest.mark.parametrize(("name", "large"), [("base_n43_m61", 2), ("samplemajor_n43_m61", 1)])
def test_large_chunks_of_sample_major_files_are_written_one_at_a_time(
    reference: Path, tmp_path: Path, name: str, large: int
) -> None:
    prefix = reference / "data/edge/plink_made" / name
    plan = plan_ingest([prefix], tmp_path / "g.zarr", selection=Selection(), chunk_shape=(16, 12))
    assert plan.partitions_at_once == 2
    assert replace(plan, chunk_shape=(65_536, 8192)).partitions_at_once == large
