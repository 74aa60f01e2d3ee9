"""Ingest of every fixture, compared with bed-reader and plink2, in parts and whole."""

import csv
import gzip
import hashlib
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr
from support.filesets import copy_fileset, open_filesets
from support.ingest_runs import bed_reader_dosages, run, split_by_chromosome, stored
from support.tiers import thinned

from primo_scale.errors import InputError, UsageError
from primo_scale.genotypes import bed, ingest
from primo_scale.genotypes.filters import Selection
from primo_scale.genotypes.store import copies_of_hard_calls, open_genotypes

EDGE = Path(__file__).resolve().parents[1] / "reference/data/edge"


def observed_behaviour() -> list[tuple[str, bool]]:
    """Return (name, whether plink2 loads it) of the fixtures that are whole filesets."""
    if not EDGE.is_dir():
        return []
    with (EDGE / "expected_behaviour.tsv").open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    key = "plink2_--export_A-transpose"
    return [(row["fixture"], row[key].startswith("rc=0")) for row in rows]


# plink2 reads a row for each person, and position 1 in place of 1e+05.
STRICTER = ("samplemajor_n43_m61", "smallmode0", "bad_bim_nonint_pos", "example-missing")
ACCEPTED = [n for n, accepted in observed_behaviour() if accepted and not n.endswith(STRICTER)]
REFUSED = [name for name, _ in observed_behaviour() if name not in ACCEPTED]

ONE_COPY = ("Y", "MT")


def traw_dosages(path: Path) -> np.ndarray:
    """Return copies of A1 from a .traw file, which counts A2, without one-copy chromosomes."""
    rows = [line.split("\t") for line in path.read_text().splitlines()[1:]]
    values = [row[6:] for row in rows if row[0] not in ONE_COPY]
    return np.array([[-1 if v == "NA" else 2 - int(v) for v in row] for row in values], np.int8)


@pytest.mark.parametrize("name", thinned(ACCEPTED, every=6))
def test_accepted_filesets_are_read_as_in_plink2(reference, tmp_path, name):
    prefix = reference / "data/edge" / name
    store = run(prefix, tmp_path / "g.zarr", chunk_shape=(256, 36))
    dosages = open_genotypes(store.path).values
    np.testing.assert_array_equal(dosages, traw_dosages(Path(f"{prefix}.traw")))
    expected = bed_reader_dosages(prefix)
    skipped = sum(count.found for count in store.filter_counts)
    assert len(dosages) == len(expected) - skipped
    if skipped == 0:
        np.testing.assert_array_equal(dosages, expected)


@pytest.mark.parametrize("name", REFUSED)
def test_filesets_that_plink2_refuses_are_refused(reference, tmp_path, name):
    with pytest.raises(InputError) as caught:
        run(reference / "data/edge" / name, tmp_path / "g.zarr")
    assert name.split("/")[-1] in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_genotype_counts_equal_those_of_plink2(reference, tmp_path):
    real = reference / "data/real/hapmap3_chr1-10"
    store = run(real / "hm3_chr1-10", tmp_path / "g.zarr", chunk_shape=(2048, 128))
    with gzip.open(real / "truth/hm3.gcount.gz", "rt") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    # REF is .bim column 6 (A2); raw values are hom A1, missing, het, hom A2.
    columns = ["TWO_ALT_GENO_CTS", "MISSING_CT", "HET_REF_ALT_CTS", "HOM_REF_CT"]
    expected = [[int(row[column]) for column in columns] for row in rows]
    np.testing.assert_array_equal(stored(store, "genotype_counts"), expected)
    assert store.variants.identifier.tolist() == [row["ID"] for row in rows]


def test_chunk_shape_changes_no_identity(base, tmp_path):
    stores = [run(base, tmp_path / f"{v}.zarr", chunk_shape=(v, s)) for v, s in [(16, 4), (80, 60)]]
    digests = {(store.identity_digest, store.cohort_digest) for store in stores}
    assert len(digests) == 1


SLABS = [(1, 1, 1 << 22), (7, 3, 1 << 22), (32, 64, 1)]


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "chunks", "size"), SLABS)
def test_slabs_of_any_shape_give_the_same_store(
    reference, tmp_path, monkeypatch, rows, chunks, size
):
    """61 variants and 43 people do not fill a slab or a chunk."""
    prefix = reference / "data/edge/plink_made/base_n43_m61"
    expected = bed_reader_dosages(prefix)
    usual = run(prefix, tmp_path / "usual.zarr", chunk_shape=(16, 8))
    monkeypatch.setattr(ingest, "_SLAB_ROWS", rows)
    monkeypatch.setattr(ingest, "_MOST_CHUNKS", chunks)
    monkeypatch.setattr(ingest, "_SLAB_BYTES", size)
    monkeypatch.setattr(bed, "RAW_SLAB_BYTES", size)
    whole = run(prefix, tmp_path / "whole.zarr", chunk_shape=(16, 8))
    np.testing.assert_array_equal(open_genotypes(whole.path).values, expected)
    counts = [(expected == code).sum(axis=1) for code in (2, -1, 1, 0)]
    np.testing.assert_array_equal(stored(whole, "genotype_counts"), np.stack(counts, axis=1))
    np.testing.assert_array_equal(stored(whole, "chunk_crc32c"), stored(usual, "chunk_crc32c"))


def test_joined_filesets_have_all_genotypes_and_the_hashes_of_the_files(base, tmp_path):
    """This includes .bed files, which are hashed while they are copied."""
    prefixes = split_by_chromosome(base, tmp_path)
    assert len(prefixes) > 5
    out = tmp_path / "out"
    out.write_text("\n".join(Path(f"{prefixes[1]}.bim").read_text().split()[1::6]))
    whole = run(prefixes, tmp_path / "whole.zarr")
    np.testing.assert_array_equal(open_genotypes(whole.path).values, bed_reader_dosages(base))
    identifiers = Path(f"{base}.bim").read_text().split()[1::6]
    assert whole.variants.identifier.tolist() == identifiers
    fewer = run(prefixes, tmp_path / "fewer.zarr", Selection(exclude=out))  # one is not copied
    for store in (whole, fewer):
        recorded = zarr.open_group(store.path).attrs["sources"]
        assert len(recorded) == 3 * len(prefixes)
        for source in recorded:
            content = Path(source["path"]).read_bytes()
            assert source["sha256"] == hashlib.sha256(content).hexdigest()


def test_filesets_of_different_people_are_refused(base, tmp_path):
    first, second, *_ = split_by_chromosome(base, tmp_path)
    fam = Path(f"{second}.fam")
    lines = fam.read_text().splitlines(keepends=True)
    fam.write_text("".join([lines[0], lines[2], lines[1], *lines[3:]]))
    with pytest.raises(
        InputError, match=r"study\.chr2, person 2: .*found 1444 NA12750, expected 1346 NA12045"
    ):
        run([first, second], tmp_path / "g.zarr")


def test_a_chromosome_that_is_not_contiguous_is_refused(base, tmp_path):
    first, second, *_ = split_by_chromosome(base, tmp_path)
    for ending in (".bed", ".bim", ".fam"):
        shutil.copy(f"{first}{ending}", tmp_path / f"again{ending}")
    with pytest.raises(InputError, match="chromosome 1 is split"):
        run([first, second, tmp_path / "again"], tmp_path / "g.zarr")


@pytest.mark.parametrize("shape", [(0, 4), (4, 6), (4, 0)])
def test_impossible_chunks_are_a_usage_error(base, tmp_path, shape):
    with pytest.raises(UsageError):
        run(base, tmp_path / "g.zarr", chunk_shape=shape)


def test_padding_bits_of_the_store_are_zero(reference, tmp_path):
    store = run(reference / "data/edge/plink_made/padbits_nonzero_n41", tmp_path / "g.zarr")
    assert not (store.read_packed(slice(None), slice(40, 41)) & 0b11111100).any()


@pytest.mark.parametrize("budget", [1, 64, 1 << 26])
def test_any_subset_is_read_with_any_buffer_size(reference, monkeypatch, budget):
    monkeypatch.setattr(bed, "RAW_SLAB_BYTES", budget)
    prefix = reference / "data/edge/plink_made" / "base_n43_m61"
    file = open_filesets([prefix])
    expected = bed_reader_dosages(prefix)
    rng = np.random.default_rng(budget)
    for _ in range(10):
        variants = np.sort(rng.choice(61, rng.integers(1, 62), replace=False))
        samples = np.sort(rng.choice(43, rng.integers(1, 44), replace=False))
        packed = file.read(variants, samples)
        np.testing.assert_array_equal(
            copies_of_hard_calls(packed, len(samples)), expected[np.ix_(variants, samples)]
        )


def test_a_file_that_shrinks_is_refused(reference, tmp_path):
    prefix = copy_fileset(reference / "data/edge/plink_made/base_n43_m61", tmp_path / "x")
    path = tmp_path / "x.bed"
    file = open_filesets([prefix])
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match="shorter"):
        file.read(np.arange(61), np.arange(43))
