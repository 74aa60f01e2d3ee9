"""The PGS Catalog's own tools read a release: format, match, score by plink2, aggregate."""

import gzip
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from support.processes import run_program
from support.readme_scores import assert_equal_scores, own_scores
from support.tiers import installed

N_VARIANTS = 3_000
SCORED = "fresh_ALL_additive_0"  # the tools take data set and chromosome from this name

pytestmark = [pytest.mark.oracle, pytest.mark.slow]


def tool(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    words = [str(installed("catalogue", name)), *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True)


def format_scores(files: list[Path], out: Path) -> subprocess.CompletedProcess[str]:
    out.mkdir()
    return tool(
        "pgscatalog-format", "-s", *files, "-t", "GRCh37", "-o", out, "-l", "log.json",
        "--threads", 1,
    )  # fmt: skip


def test_the_catalogues_tools_compute_the_scores_of_a_release(release: Path, plink2: str) -> None:
    folder = release.parent
    formatted = format_scores(sorted((release / "pgs").glob("*.txt.gz")), folder / "formatted")
    assert formatted.returncode == 0, formatted.stderr
    normalised = sorted((folder / "formatted").glob("*.txt.gz"))
    assert len(normalised) == len(list((release / "pgs").iterdir()))

    on_fresh = (plink2, "--bfile", folder / "fresh", "--out", folder / SCORED)
    run_program(*on_fresh, "--make-just-pvar", "cols=")
    (folder / "matched").mkdir()
    matched = tool(
        "pgscatalog-match", "-d", "fresh", "-s", *normalised, "-t", folder / f"{SCORED}.pvar",
        "--outdir", folder / "matched", "--combined", "--keep_ambiguous", "--min_overlap", 1,
    )  # fmt: skip
    assert matched.returncode == 0, matched.stderr
    scorefile = folder / "matched" / f"{SCORED}.scorefile.gz"
    rows = pd.read_csv(scorefile, sep="\t")
    assert len(rows) == N_VARIANTS

    run_program(
        *on_fresh, "--score", scorefile, "header-read", "cols=+scoresums,+denom,-fid",
        "--score-col-nums", f"3-{rows.shape[1]}", "--read-freq", release / "centre.afreq",
    )  # fmt: skip
    (folder / "aggregated").mkdir()
    aggregated = tool(
        "pgscatalog-aggregate", "-s", folder / f"{SCORED}.sscore", "-o", folder / "aggregated",
        "--no-split",
    )  # fmt: skip
    assert aggregated.returncode == 0, aggregated.stderr
    found = pd.read_csv(folder / "aggregated" / "aggregated_scores.txt.gz", sep="\t")
    found = found.pivot(index="IID", columns="PGS", values="SUM")
    expected = own_scores(release, folder / "fresh")
    assert_equal_scores(found.loc[expected.index, expected.columns], expected.to_numpy())


def test_a_scoring_file_without_a_build_is_refused(release: Path, tmp_path: Path) -> None:
    """README.txt and a warning therefore state that a release needs a build for these tools."""
    path = next((release / "pgs").glob("*.txt.gz"))
    text = gzip.decompress(path.read_bytes()).decode()
    assert "#genome_build=GRCh37\n" in text
    (tmp_path / "score.txt").write_text(text.replace("=GRCh37\n", "=NR\n", 1))
    refused = format_scores([tmp_path / "score.txt"], tmp_path / "formatted")
    assert refused.returncode != 0
    assert "missing build" in refused.stderr
