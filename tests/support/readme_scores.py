"""Scores of a release by plink2, as its README.txt says, and by bed-reader and pandas."""

import shlex
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from bed_reader import open_bed

from support.processes import run_program

PRINTED_BY_PLINK2 = 1e-5  # six digits


def readme_command(release: Path) -> list[str]:
    text = (release / "README.txt").read_text()
    start = text.index("plink2 --bfile")
    return shlex.split(text[start : text.index("\n\n", start)].replace("\\\n", " "))


def readme_scores(
    plink2: str, release: Path, bfile: Path, names: Iterable[str], **changed: str
) -> npt.NDArray[np.float64]:
    command = [plink2, *readme_command(release)[1:]]
    for option, value in {"bfile": str(bfile), **changed}.items():
        command[command.index(f"--{option.replace('_', '-')}") + 1] = value
    run_program(*command, folder=release)
    table = pd.read_csv(release.parent / "scores.sscore", sep=r"\s+")
    return table[[f"{name}_SUM" for name in names]].to_numpy(np.float64)


def own_scores(release: Path, bfile: Path) -> pd.DataFrame:
    """Return dosages times weights, missing calls at the centre; people by phenotypes."""
    types = {"ID": str}
    weights = pd.read_csv(release / "weights.tsv.gz", sep="\t", dtype=types).set_index("ID")
    weights = weights.iloc[:, 5:]
    centre = pd.read_csv(release / "centre.afreq", sep="\t", skiprows=1)["ALT_FREQS"].to_numpy()
    with open_bed(f"{bfile}.bed", count_A1=True, num_threads=1) as bed:
        variants = pd.Index(bed.sid).get_indexer(weights.index)
        dosages, people = bed.read(np.s_[:, variants], dtype="float64"), bed.iid
    dosages = np.where(np.isnan(dosages), 2 * centre, dosages)
    return pd.DataFrame(dosages @ weights.to_numpy(), index=people, columns=weights.columns)


def assert_equal_scores(found: npt.NDArray[np.float64], expected: npt.NDArray[np.float64]) -> None:
    """Compare scores, of which plink2 prints six digits."""
    scale = np.abs(expected).max()
    np.testing.assert_allclose(
        found, expected, rtol=PRINTED_BY_PLINK2, atol=PRINTED_BY_PLINK2 * scale
    )
