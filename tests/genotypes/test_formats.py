"""PLINK 2, BGEN, VCF and VCF-Zarr files, compared with the .bed files that plink2 makes of them."""

import gzip
import shutil
import struct
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import zarr
from support.ingest_runs import FORMATS, run, stored
from support.processes import run_program
from support.tiers import thinned

import primo_scale as ps
from primo_scale.errors import InputError, UsageError
from primo_scale.genotypes.filters import Selection
from primo_scale.genotypes.source import GenotypeSource, SourceFiles, open_source
from primo_scale.genotypes.store import GenotypeStore, copies_of_hard_calls
from primo_scale.genotypes.tables import canonical_chromosomes
from primo_scale.kernels.packed import packed_width
from primo_scale.run.options import GenotypeFiles

NAMES = ("odd", "base_n43_m61", "degenerate", "sexchr_PAR_codes")
OTHERS = ("pfile", "bgen", "vcf", "vcz")
TABLES = ("variant_position", "variant_identifier", "variant_allele1", "variant_allele2")


def genotypes(source: GenotypeSource) -> np.ndarray:
    n_people = len(source.samples)
    result = np.full((len(source.variants), packed_width(n_people)), 0xFF, dtype=np.uint8)
    source.read_into(result, np.arange(len(result)), np.arange(n_people))
    return result


def copied(files: SourceFiles, folder: Path) -> SourceFiles:
    (path,) = files.paths
    for each in FORMATS.glob(f"{path.name.partition('.')[0]}.*"):
        shutil.copy(each, folder)
    sample = None if files.sample is None else folder / files.sample.name
    return replace(files, paths=(folder / path.name,), sample=sample)


def assert_equal_stores(ours: GenotypeStore, plink: GenotypeStore, kind: str) -> None:
    for name in ("genotypes", "genotype_counts", "chunk_crc32c", *TABLES):
        np.testing.assert_array_equal(stored(ours, name), stored(plink, name), err_msg=name)
    assert ours.samples.individual.tolist() == plink.samples.individual.tolist()
    if kind not in ("vcf", "vcz"):  # a VCF has no FID and no PAR1
        assert (
            canonical_chromosomes(ours.variants).tolist()
            == canonical_chromosomes(plink.variants).tolist()
        )
        assert ours.cohort_digest == plink.cohort_digest


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("name", thinned(NAMES, every=4))
def test_a_file_has_the_genotypes_that_plink2_writes_to_a_bed(name, kind, files_of, tmp_path):
    """Missing, phased, haploid, half-called and dosage genotypes; names that are not ASCII."""
    chosen = Selection(chromosomes=("1", "2", "X", "PAR1", "PAR2"))
    plink = run(files_of(name, "bfile"), tmp_path / "bed.zarr", chosen)
    ours = run(files_of(name, kind), tmp_path / "ours.zarr", chosen)
    assert_equal_stores(ours, plink, kind)
    again = run(files_of(name, kind), tmp_path / "ours.zarr", chosen)
    assert again.identity_digest == ours.identity_digest


def test_every_format_gives_the_same_statistics_digest(files_of, tmp_path):
    names = open_source(files_of("base_n43_m61", "bfile")).samples.individual
    pheno, bounds = tmp_path / "pheno.tsv", tmp_path / "bounds.tsv"
    pheno.write_text("IID T\n" + "".join(f"{name} {i % 5}\n" for i, name in enumerate(names)))
    bounds.write_text("name lower upper sd mean\nT 0 4 1 2\n")
    digests = set()
    for kind in ("bfile", *OTHERS):
        files = files_of("base_n43_m61", kind)
        inputs = {kind: files.paths, "sample": files.sample}
        ps.ingest(**inputs, out=tmp_path / f"{kind}.zarr")
        request = ps.AccumulateRequest(
            genotypes=tmp_path / f"{kind}.zarr",
            pheno=pheno,
            pheno_bounds=bounds,
            non_private=True,
            work_dir=tmp_path / kind,
        )
        digests.add(ps.accumulate(request).sha256)
    assert len(digests) == 1


@pytest.mark.parametrize("kind", thinned(OTHERS, every=4))
def test_subsets_of_people_and_variants_are_those_of_the_bed(kind, files_of, tmp_path):
    bed = open_source(files_of("base_n43_m61", "bfile"))
    people, names = tmp_path / "people", tmp_path / "names"
    people.write_text("".join(f"{name}\n" for name in bed.samples.individual[2:40:3]))
    names.write_text("".join(f"{name}\n" for name in bed.variants.identifier[1:60:4]))
    fewer = Selection(keep=people, exclude=names)
    stores = [
        run(files_of("base_n43_m61", each), tmp_path / f"{each}.zarr", fewer)
        for each in ("bfile", kind)
    ]
    for store in stores:
        np.testing.assert_array_equal(stored(store, "genotypes"), stored(stores[0], "genotypes"))
    assert stores[1].samples.individual.tolist() == bed.samples.individual[2:40:3].tolist()


def test_a_bcf_is_read_as_the_vcf(files_of):
    vcf = files_of("odd", "vcf")
    sources = [open_source(f) for f in (vcf, replace(vcf, paths=(FORMATS / "odd.bcf",)))]
    np.testing.assert_array_equal(*map(genotypes, sources))
    assert sources[0].variants.identifier.tolist() == sources[1].variants.identifier.tolist()
    assert sources[0].samples.individual.tolist() == sources[1].samples.individual.tolist()


def test_a_deletion_that_reaches_into_a_region_is_not_read_for_it(tmp_path):
    """`region` queries of htslib give every record that overlaps."""
    source = open_source(SourceFiles((FORMATS / "deletion.vcf.gz",), "vcf"))
    whole = genotypes(source)
    for first in range(len(whole)):
        part = np.empty((len(whole) - first, whole.shape[1]), dtype=np.uint8)
        source.read_into(part, np.arange(first, len(whole)), np.arange(3))
        np.testing.assert_array_equal(part, whole[first:])
    assert source.variants.identifier.tolist() == ["long", "a", "b", "c", "again"]
    np.testing.assert_array_equal(
        copies_of_hard_calls(whole, 3), [[0, 1, 2], [2, 0, 1], [1, 1, 1], [0, 2, 0], [2, 2, -1]]
    )


@pytest.mark.parametrize("pattern", ["chr{1..2}", "all.list"])
def test_filesets_of_several_chromosomes_are_joined(pattern, tmp_path):
    for number in (1, 2):
        for ending in (".pgen", ".psam"):
            shutil.copy(FORMATS / f"odd{ending}", tmp_path / f"chr{number}{ending}")
        table = (FORMATS / "odd.pvar").read_text()
        for code, other in (("1", "3"), ("2", "4"), ("X", "5")) if number == 2 else ():
            table = table.replace(f"\n{code}\t", f"\n{other}\t")
        (tmp_path / f"chr{number}.pvar").write_text(table)
    (tmp_path / "all.list").write_text(f"{tmp_path}/chr1\n{tmp_path}/chr2\n")
    joined = open_source(GenotypeFiles(pfile=tmp_path / pattern).sources)
    one = open_source(SourceFiles((FORMATS / "odd",), "pfile"))
    np.testing.assert_array_equal(genotypes(joined), np.tile(genotypes(one), (2, 1)))
    assert len(joined.files()) == 6


def test_probabilities_are_called_as_plink2_does():
    """All 32,896 unphased and 65,536 phased pairs of 8 bits, and 16 bits near the thresholds."""
    plink = open_source(SourceFiles((FORMATS / "probabilities",)))
    ours = open_source(SourceFiles((FORMATS / "probabilities.bgen",), "bgen"))
    np.testing.assert_array_equal(genotypes(ours), genotypes(plink))


def test_the_other_order_of_alleles_counts_the_other_allele(files_of):
    first = files_of("base_n43_m61", "bgen")
    ours, other = (open_source(replace(first, allele_order=o)) for o in ("ref-first", "ref-last"))
    assert other.variants.allele1.tolist() == ours.variants.allele2.tolist()
    codes = [genotypes(source)[:, :10, None] >> np.arange(0, 8, 2) & 3 for source in (ours, other)]
    np.testing.assert_array_equal(codes[1], np.array([3, 1, 2, 0])[codes[0]])


@pytest.mark.parametrize("kind", ["pfile", "vcf", "vcz"])
def test_variants_of_several_alleles_are_refused_by_name(kind, files_of):
    with pytest.raises(InputError, match=r"rs2 has more than two alleles .got 1 such"):
        open_source(files_of("several", kind))


def test_a_vcz_store_without_an_array_or_with_an_unknown_allele_is_refused(files_of, tmp_path):
    files = files_of("odd", "vcz")
    group = zarr.open_group(files.paths[0], mode="r+")
    group["call_genotype"][3, 4] = [0, 2]
    with pytest.raises(InputError, match=r"odd.vcz: a genotype has an allele that its variant"):
        run(files, tmp_path / "g.zarr")
    shutil.rmtree(files.paths[0] / "contig_id")
    with pytest.raises(InputError, match="it lacks contig_id"):
        open_source(files)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("sample_id", np.array(["p1", "p2"])), ("sample_id", np.array([["p1", "p2"]])),
        ("variant_position", np.arange(1, 8)), ("variant_contig", np.zeros(7, int)),
        ("variant_allele", np.array(["A"] * 8)), ("variant_id", np.array(["a", "b"])),
        ("variant_contig", np.full(8, 3)), ("variant_contig", np.full(8, -1)),
    ],
)  # fmt: skip
def test_a_vcz_store_whose_arrays_disagree_is_refused(name, values, files_of):
    files = files_of("odd", "vcz")
    shutil.rmtree(files.paths[0] / name)
    zarr.open_group(files.paths[0], mode="r+").create_array(name, data=values)
    with pytest.raises(InputError, match=rf"odd.vcz: {name} has "):
        open_source(files)


@pytest.mark.parametrize(
    ("library", "kind", "package"), [("pgenlib", "pfile", "Pgenlib"), ("cyvcf2", "vcf", "cyvcf2")]
)
def test_without_its_library_the_package_is_named(library, kind, package, files_of, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(UsageError, match=f"pip install {package}"):
        open_source(files_of("odd", kind))


def test_a_vcf_without_an_index_or_with_that_of_another_file_is_refused(tmp_path):
    moved = shutil.copy(FORMATS / "odd.vcf.gz", tmp_path)
    with pytest.raises(InputError, match=r"odd.vcf.gz: has no index"):
        open_source(SourceFiles((Path(moved),), "vcf"))
    shutil.copy(FORMATS / "base_n43_m61.vcf.gz.csi", f"{moved}.csi")
    with pytest.raises(InputError, match=r"its index is that of another file"):
        open_source(SourceFiles((Path(moved),), "vcf"))
    Path(f"{moved}.csi").write_bytes(b"")
    with pytest.raises(InputError, match=r"its index is that of another file: error loading"):
        open_source(SourceFiles((Path(moved),), "vcf"))


def test_a_vcf_with_fewer_records_than_its_index_states_is_refused(files_of, tmp_path):
    """The pseudo-bin of the CSI format holds the number of records."""
    files = copied(files_of("odd", "vcf"), tmp_path)
    index = tmp_path / "odd.vcf.gz.csi"
    content = bytearray(gzip.decompress(index.read_bytes()))
    (depth,) = struct.unpack_from("<i", content, 8)
    place = content.index(struct.pack("<I", ((1 << 3 * (depth + 1)) - 1) // 7 + 1)) + 32
    (records,) = struct.unpack_from("<Q", content, place)
    struct.pack_into("<Q", content, place, records + 1)
    index.write_bytes(content)
    with pytest.raises(InputError, match=r"(\d+) of (?!\1)\d+ records can be read"):
        open_source(files)


def test_a_reader_of_a_pgen_is_used_again_for_other_people(files_of):
    source = open_source(files_of("base_n43_m61", "pfile"))
    whole = genotypes(source)
    few = np.empty((len(whole), packed_width(3)), dtype=np.uint8)
    source.read_into(few, np.arange(len(whole)), np.array([5, 9, 30]))
    np.testing.assert_array_equal(genotypes(source), whole)
    np.testing.assert_array_equal(
        copies_of_hard_calls(few, 3), copies_of_hard_calls(whole, 43)[:, [5, 9, 30]]
    )


@pytest.mark.parametrize("error", [MemoryError(), TypeError("an argument is missing")])
def test_an_error_that_is_not_of_a_damaged_vcf_is_not_explained(error, files_of, monkeypatch):
    def fail(path):
        raise error

    monkeypatch.setattr("cyvcf2.VCF", fail)
    with pytest.raises(type(error)):
        open_source(files_of("odd", "vcf"))


@pytest.mark.parametrize(
    ("kind", "ending"),
    [
        ("bgen", ".bgen"), ("bgen", ".sample"), ("pfile", ".pgen"), ("pfile", ".pvar"),
        ("vcf", ".vcf.gz"), ("vcz", ".vcz/call_genotype/.zarray"),
    ],
)  # fmt: skip
def test_damaged_files_are_read_or_refused_in_one_line(kind, ending, files_of, tmp_path):
    """Of 150 damaged files, some are read: the damage is in a name or a probability."""
    files = copied(files_of("odd", kind), tmp_path)
    damaged, refused = tmp_path / f"odd{ending}", 0
    content, rng = damaged.read_bytes(), np.random.default_rng(1)
    for _ in range(150):
        broken = bytearray(content)
        place = rng.integers(rng.choice([min(60, len(content)), len(content)]))
        broken[place] ^= 1 << int(rng.integers(8))
        damaged.write_bytes(broken[: None if rng.random() < 0.8 else rng.integers(len(broken))])
        try:
            genotypes(open_source(files))
        except InputError as error:
            refused += 1
            assert "odd." in str(error) and "\n" not in str(error)
    assert 10 < refused < 150


@pytest.mark.parametrize("kind", OTHERS)
def test_a_file_that_is_missing_or_of_another_format_is_refused(kind, tmp_path):
    with pytest.raises(InputError, match=r"none"):
        open_source(SourceFiles((tmp_path / "none",), kind))
    for name in ("text", "text.pgen", "text.pvar", "text.psam"):
        (tmp_path / name).write_text("#IID\nno genotypes\n")
    with pytest.raises(InputError, match=r"text"):
        open_source(SourceFiles((tmp_path / "text",), kind))


@pytest.mark.slow
@pytest.mark.oracle
def test_real_genotypes_are_those_of_the_bed(reference, plink2, tmp_path):
    prefix = reference / "data/real/hapmap3_chr1-10/hm3_chr1-10"
    for export in (["--make-pgen"], ["--export", "bgen-1.3", "ref-first", "bits=8"]):
        run_program(plink2, "--bfile", prefix, *export, "--out", tmp_path / "c")
    plink = run(prefix, tmp_path / "bed.zarr", chunk_shape=(2048, 128))
    for files in (
        SourceFiles((tmp_path / "c",), "pfile"),
        SourceFiles((tmp_path / "c.bgen",), "bgen", tmp_path / "c.sample"),
    ):
        ours = run(files, tmp_path / f"{files.format}.zarr", chunk_shape=(2048, 128))
        assert_equal_stores(ours, plink, files.format)
