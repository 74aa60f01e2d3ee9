"""Dosages of PGEN, BGEN and VCF-Zarr files, compared with plink2's and with their definition."""

import re
import shutil
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import zarr
from pgenlib import PgenReader
from support.dosage_definition import nearest_byte
from support.ingest_runs import FORMATS, Stop, run, stop_after, stored
from support.processes import run_program
from support.small_cohort import command, refused
from support.tiers import thinned

from primo_scale.cli.commands import ingest as ingest_command
from primo_scale.errors import InputError, UsageError
from primo_scale.evaluation.scores import MatchedWeights, people_of_store, score_people
from primo_scale.genotypes.coding import MatchCounts
from primo_scale.genotypes.filters import Selection
from primo_scale.genotypes.source import SourceFiles, open_source
from primo_scale.genotypes.store import DOSAGES, open_genotype_store, open_genotypes
from primo_scale.kernels.dosage_bytes import STEPS, UNITS
from primo_scale.parties.columns import genotype_columns
from primo_scale.run.options import GenotypeFiles

KINDS = ("pfile", "bgen", "vcf", "vcz")


@pytest.fixture
def files_of(files_of):
    return lambda name, kind: replace(files_of(name, kind), packing=DOSAGES)


def dosages(source) -> np.ndarray:
    everybody = np.arange(len(source.samples))
    found = np.full((len(source.variants), len(everybody)), 7, dtype=np.uint8)
    source.read_into(found, np.arange(len(found)), everybody)
    return found


def of_plink2(prefix: Path) -> np.ndarray:
    """Return the bytes of the dosages that plink2 stored, as Pgenlib alone reads them."""
    reader = PgenReader(bytes(prefix.with_suffix(".pgen")))
    shape = reader.get_variant_ct(), reader.get_raw_sample_ct()
    copies = np.empty(shape, dtype=np.float32)
    reader.read_dosages_list(np.arange(shape[0], dtype=np.uint32), copies)
    units, places = np.unique(np.where(copies < 0, -1, copies * UNITS), return_inverse=True)
    return np.array([nearest_byte(int(each)) for each in units], np.uint8)[places.reshape(shape)]


def of_vcf(path: Path, field: str) -> list[list[int]]:
    """Return the bytes of DS or GP in a VCF, from its text, or else those of GT."""
    rows = [line.split("\t") for line in path.read_text().splitlines() if line[0] != "#"]
    return [[_byte(row[8], cell, field) for cell in row[9:]] for row in rows]


def _byte(names: str, cell: str, field: str) -> int:
    values = dict(zip(names.split(":"), cell.split(":"), strict=True))
    alleles = re.split(r"[/|]", values["GT"])
    numbers = values.get(field, ".").split(",")
    if numbers != ["."]:
        mass = list(map(Fraction, numbers))
        copies = mass[0]
        if field == "GP":
            copies = sum(i * p for i, p in enumerate(mass)) / sum(mass)
    elif "." in alleles:
        return nearest_byte(-1)
    else:
        copies = Fraction(alleles.count("1"))
    return nearest_byte(int(copies * 2 / len(alleles) * UNITS + Fraction(1, 2)))


@pytest.mark.parametrize("kind", thinned(KINDS, every=2))
def test_every_format_has_the_dosages_that_plink2_stores(kind, files_of):
    """Missing and phased genotypes, haploid people, calls without a dosage, names not ASCII."""
    found = dosages(open_source(files_of("odd", kind)))
    np.testing.assert_array_equal(found, of_plink2(FORMATS / "odd"))
    assert found.tolist() == of_vcf(FORMATS / "odd.vcf", "DS")
    assert {255, 127, 123, 5} <= set(found.ravel().tolist())


def test_probabilities_of_a_vcf_have_the_means_that_plink2_takes(files_of):
    files = files_of("imputed", "vcz")
    found = dosages(open_source(files))
    assert found.tolist() == of_vcf(FORMATS / "imputed.vcf", "DS")
    shutil.rmtree(files.paths[0] / "call_DS")
    found = dosages(open_source(files))
    assert found.tolist() == of_vcf(FORMATS / "imputed.vcf", "GP")
    np.testing.assert_array_equal(found, of_plink2(FORMATS / "imputed"))


@pytest.mark.slow
@pytest.mark.oracle
def test_probabilities_of_a_bgen_become_the_dosages_of_plink2(plink2, files_of, tmp_path):
    """All 32,896 unphased and 65,536 phased pairs of 8 bits, some of 16 bits, mixed ploidy."""
    words = [plink2, "--bgen", FORMATS / "probabilities.bgen", "ref-first", "--make-pgen"]
    run_program(*words, "--out", tmp_path / "p", "--threads", 1)
    found = dosages(open_source(files_of("probabilities", "bgen")))
    np.testing.assert_array_equal(found, of_plink2(tmp_path / "p"))


@pytest.mark.parametrize(
    ("kind", "chunk_shape"), thinned(product(KINDS, [(3, 4), (512, 8192)]), every=3)
)
def test_a_store_holds_the_dosages_of_chosen_people_and_variants(
    kind, chunk_shape, files_of, tmp_path
):
    names = tmp_path / "names"
    names.write_text("p3\np_5\nZoë\n")
    store = run(files_of("odd", kind), tmp_path / "g", Selection(keep=names), chunk_shape)
    expected = of_plink2(FORMATS / "odd")[:, [1, 2, 4]]
    np.testing.assert_array_equal(stored(store, "genotypes"), expected)
    array = open_genotypes(tmp_path / "g")
    assert array.dtype == np.float32 and array.sample.values.tolist() == ["Zoë", "p3", "p_5"]
    copies = np.where(expected == 255, -1, expected / np.float32(STEPS))
    np.testing.assert_array_equal(array.values, copies.astype(np.float32))
    assert store.packing is DOSAGES


def every_variant(weights: np.ndarray, centre: np.ndarray) -> MatchedWeights:
    d, scores = weights.shape
    return MatchedWeights(np.arange(d), weights, np.zeros(scores), centre, MatchCounts(d, d))


def test_scores_and_party_columns_are_those_of_the_dosages(files_of, tmp_path):
    run(files_of("odd", "pfile"), tmp_path / "g")
    genotypes = people_of_store(open_genotype_store(tmp_path / "g"))
    table = of_plink2(FORMATS / "odd").astype(float)
    missing, copies = table == 255, table / STEPS
    weights = np.arange(1.0, 17).reshape(8, 2)
    known = np.where(missing, 0, copies).sum(axis=1) / np.maximum((~missing).sum(axis=1), 1)
    centre = np.where(np.arange(8) % 2, np.nan, 0.3)
    filled = np.where(missing, np.where(np.isnan(centre), known, centre)[:, None], copies)
    scores = score_people(genotypes, every_variant(weights, centre))
    np.testing.assert_allclose(scores, filled.T @ weights, rtol=1e-12)
    pieces = [piece() for piece in genotype_columns(run(files_of("odd", "pfile"), tmp_path / "g"))
              .pieces()]  # fmt: skip
    units = np.where(missing, 0, np.rint((copies - 1) * 2**20)).T
    np.testing.assert_array_equal(np.concatenate([piece[1] for piece in pieces]), units)


def test_files_without_dosages_are_refused(files_of):
    with pytest.raises(UsageError, match="`bfile` and `dosages` exclude each other"):
        GenotypeFiles(bfile="x", dosages=True)
    with pytest.raises(InputError, match=r"rs2 has more than two alleles"):
        open_source(files_of("several", "pfile"))
    with pytest.raises(InputError, match=r"lacks call_DS and call_GP.*Leave --dosages out"):
        open_source(files_of("base_n43_m61", "vcz"))


@pytest.mark.parametrize("value", [-0.01, 2.01, 1.01, np.inf, 1e30])
def test_an_impossible_dosage_is_refused(value, files_of, tmp_path):
    """The last is of a person with one copy."""
    files = files_of("imputed", "vcz")
    group = zarr.open_group(files.paths[0], mode="r+")
    group["call_DS"][4 if value == 1.01 else 0, 0] = value
    with pytest.raises(InputError, match=r"imputed.vcz: a dosage is not between 0 and 2"):
        run(files, tmp_path / "g")


def test_dosages_and_hard_calls_do_not_share_a_store(files_of, tmp_path):
    """A finished store of the other packing is refused in one line, and an unfinished one."""
    words = ["--pfile", FORMATS / "odd", "--out", tmp_path / "g"]
    assert command(ingest_command, *words, "--dosages").exit_code == 0
    assert command(ingest_command, *words, "--dosages").exit_code == 0
    refused(command(ingest_command, *words), 3, "another kind", "dosages")
    shutil.rmtree(tmp_path / "g")
    for first, other in (([], ["--dosages"]), (["--dosages"], [])):
        partial = tmp_path / "g.partial"
        shutil.rmtree(partial, ignore_errors=True)
        run_until_planned(tmp_path / "g", dosages=bool(first))
        refused(command(ingest_command, *words, *other), 3, "packing", "g.partial")


def run_until_planned(destination, *, dosages: bool) -> None:
    """Leave an ingest of ``odd`` that was interrupted before its first partition."""
    files = GenotypeFiles(pfile=FORMATS / "odd", dosages=dosages).sources
    with pytest.raises(Stop):
        run(files, destination, chunk_shape=files.packing.chunk_shape, on_progress=stop_after(0))


@pytest.mark.slow
def test_an_interrupted_ingest_of_dosages_continues(tmp_path):
    run_until_planned(tmp_path / "g", dosages=True)
    files = GenotypeFiles(pfile=FORMATS / "odd", dosages=True).sources
    store = run(files, tmp_path / "g", chunk_shape=files.packing.chunk_shape)
    np.testing.assert_array_equal(stored(store, "genotypes"), of_plink2(FORMATS / "odd"))


@pytest.fixture(scope="module")
def dummy(plink2, tmp_path_factory) -> Path:
    prefix = tmp_path_factory.mktemp("dummy") / "d"
    alone = [plink2, "--threads", 1]
    words = ["--dummy", 500, 300, 0.02, 0.01, "dosage-freq=0.7", "--seed", 5]
    run_program(*alone, *words, "--make-pgen", "--out", prefix)
    for bits in (8, 16):
        export = ["--export", "bgen-1.2", f"bits={bits}", "ref-first"]
        run_program(*alone, "--pfile", prefix, *export, "--out", f"{prefix}{bits}")
    run_program(*alone, "--pfile", prefix, "--export", "A", "--out", prefix)
    return prefix


@pytest.mark.slow
@pytest.mark.oracle
def test_dosages_are_those_that_plink2_exports(dummy, tmp_path):
    """``--export A`` counts REF; BGEN rounds probabilities to 1/65535 or 1/255 before."""
    text = [line.split()[6:] for line in dummy.with_suffix(".raw").read_text().splitlines()[1:]]
    copies = 2 - np.array([[np.nan if c == "NA" else float(c) for c in row] for row in text]).T
    files = SourceFiles((dummy,), "pfile", packing=DOSAGES)
    pfile = run(files, tmp_path / "pgen.zarr", chunk_shape=(64, 128))
    ours = stored(pfile, "genotypes").astype(float)
    np.testing.assert_array_equal(ours == 255, np.isnan(copies))
    called = ours != 255
    assert np.abs(ours / STEPS - copies)[called].max() < 1 / (2 * STEPS) + 1e-4
    assert 0.3 < (ours[called] % STEPS != 0).mean() < 0.75
    for bits, largest in ((16, 1), (8, 2)):
        name = f"{dummy}{bits}"
        files = SourceFiles((Path(f"{name}.bgen"),), "bgen", Path(f"{name}.sample"),
                            packing=DOSAGES)  # fmt: skip
        bgen = run(files, tmp_path / f"{bits}.zarr", chunk_shape=(64, 128))
        theirs = stored(bgen, "genotypes").astype(float)
        np.testing.assert_array_equal(theirs == 255, ours == 255)
        assert np.abs(theirs - ours).max() <= largest
        assert bgen.samples.individual.tolist() == pfile.samples.individual.tolist()


@pytest.mark.oracle
def test_scores_are_those_of_plink2(dummy, plink2, tmp_path):
    """They differ by the rounding of each dosage to 1/127, at most 1/254."""
    rng = np.random.default_rng(3)
    weights = np.round(rng.normal(size=300), 6)
    source = open_source(SourceFiles((dummy,), "pfile", packing=DOSAGES))
    rows = zip(source.variants.identifier, source.variants.allele1, weights, strict=True)
    (tmp_path / "w").write_text("".join(f"{name} {a} {w}\n" for name, a, w in rows))
    words = [plink2, "--pfile", dummy, "--score", tmp_path / "w", "cols=scoresums"]
    run_program(*words, "no-mean-imputation", "--out", tmp_path / "s", "--threads", 1)
    lines = (tmp_path / "s.sscore").read_text().splitlines()[1:]
    theirs = np.array([float(line.split()[-1]) for line in lines])
    run(SourceFiles((dummy,), "pfile", packing=DOSAGES), tmp_path / "g", chunk_shape=(64, 128))
    every = every_variant(weights[:, None], np.zeros(300))
    ours = score_people(people_of_store(open_genotype_store(tmp_path / "g")), every)[:, 0]
    assert 0 < np.abs(ours - theirs).max() < np.abs(weights).sum() / 254
    assert np.std(ours - theirs) < 3 * np.sqrt((weights**2).sum() / 12) / STEPS
