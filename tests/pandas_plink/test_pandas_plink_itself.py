"""Arrays of pandas-plink itself: their stores are ours, and wrong ones are refused."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from support.documented_code import run_blocks
from support.processes import run, run_program
from support.tiers import ROOT, installed

from primo_scale.errors import PrimoError
from primo_scale.genotypes.ingest import ingest
from primo_scale.genotypes.source import SourceFiles
from primo_scale.genotypes.store import open_genotypes

EDGE = ROOT / "tests" / "reference" / "data" / "edge" / "plink_made"
FILESETS = [
    "a1a2_swapped", "bad_bim_nonint_pos", "bad_magic", "base_n43_m61", "degenerate", "dupid",
    "fam_crlf_mixed_ws", "n1_m61", "samplemajor_n43_m61", "sexchr_PAR_codes", "bad_trailing_byte",
    "bim_split_chromosome", "fam_dup_sample",
]  # fmt: skip
# pandas-plink reads these as if nothing were wrong with them; of the first, an array shows nothing,
# and the second has a row for each person.
READ_IN_SPITE_OF_AN_ERROR = ["bad_trailing_byte", "samplemajor_n43_m61"]
REFUSED_BY_US_ALONE = ["bim_split_chromosome", "fam_dup_sample"]
VARIANT_MAJOR, SAMPLE_MAJOR = "base_n43_m61", "samplemajor_n43_m61"

pytestmark = [pytest.mark.oracle, pytest.mark.slow]


def stores(folder: Path, people: int, variants: int, *names: str, counted: str = "a1") -> Path:
    script = Path(__file__).with_name("ingest_arrays.py")
    words = script, folder, people, variants, counted, *(EDGE / name for name in names)
    run_program(installed("pandas_plink", "python"), *words, folder=ROOT)
    return folder


@pytest.fixture(scope="module")
def read_by_pandas_plink(tmp_path_factory):
    return stores(tmp_path_factory.mktemp("read"), 16, 16, *FILESETS)


@pytest.mark.parametrize("name", FILESETS)
def test_its_store_has_the_genotypes_that_we_read(name, read_by_pandas_plink, tmp_path):
    found, error = (read_by_pandas_plink / f"{name}.{end}" for end in ("zarr", "error"))
    try:
        ingest(SourceFiles((EDGE / name,)), tmp_path / "ours")
    except PrimoError:
        assert found.exists() == (name in READ_IN_SPITE_OF_AN_ERROR)
        if not found.exists():
            assert error.read_text().startswith("InputError") == (name in REFUSED_BY_US_ALONE)
        return
    ours = open_genotypes(tmp_path / "ours")
    np.testing.assert_array_equal(open_genotypes(found).values, ours.values)


@pytest.mark.parametrize(
    ("name", "people", "variants"), [(VARIANT_MAJOR, 10, 20), (SAMPLE_MAJOR, 16, 10)]
)
def test_chunks_that_it_reads_wrongly_are_refused(name, people, variants, tmp_path):
    """Also where the array was then chunked again, at multiples of 4."""
    stores(tmp_path, people, variants, name)
    assert "chunks that do not begin at a multiple of 4" in (tmp_path / f"{name}.error").read_text()


def test_an_array_that_counts_the_other_allele_is_refused(tmp_path):
    stores(tmp_path, 16, 16, VARIANT_MAJOR, counted="a0")
    error = (tmp_path / f"{VARIANT_MAJOR}.error").read_text()
    assert "genotypes: counts the other allele (found a0, expected a1)" in error


def test_the_page_goes_from_an_array_to_a_verified_release(tmp_path):
    """Its store has the statistics of the files."""
    python = str(installed("pandas_plink", "python"))
    run_blocks("docs/inputs.md", tmp_path, python)
    tables = [
        word
        for name in ("pheno", "covar", "pheno-bounds", "covar-bounds")
        for word in (f"--{name}", tmp_path / f"cohort.{name}.tsv")
    ]
    panel = ROOT / "demo" / "1000g_eur343_chr22"
    digests = set()
    for name, genotypes in {
        "files": ["--bfile", tmp_path / "cohort"],
        "store": ["--genotypes", tmp_path / "release.work/genotypes.zarr"],
    }.items():
        done = run([
            sys.executable, "-m", "primo_scale", "release", *genotypes, *tables,
            "--ref-freq", f"{panel}.afreq", "--ld-panel", panel, "--non-private", "--ledger",
            tmp_path / f"{name}.sqlite", "--out", tmp_path / name,
        ])  # fmt: skip
        assert done.returncode == 0, done.stderr
        digests.add(digest_in(tmp_path / f"{name}.work"))
    assert len(digests) == 1


def digest_in(work: Path) -> str:
    (digest,) = re.findall(r"statistics sha256: ([0-9a-f]{64})", (work / "run.log").read_text())
    return digest
