"""Simulated cohorts, and the accuracy of their releases in fresh people, by the product itself."""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

import primo_scale as ps
from experiments.gaussian_noise import Float64
from primo_scale.simulation.cohort import (
    Mosaic,
    ReferencePanel,
    lay_out_sites,
    read_panel,
    simulate,
)

_ROOT = Path(__file__).resolve().parents[1]
DEMO = _ROOT / "demo" / "1000g_eur343_chr22"
"""Prefix of the demo's panel, with its frequencies and LD blocks."""
HAPMAP = _ROOT / "tests" / "reference" / "data" / "real" / "hapmap3_chr1-10"
"""Folder of people of eleven populations."""
_MEAN_SEGMENT = 200  # variants
Codes = npt.NDArray[np.uint8]


@cache
def demo_panel() -> ReferencePanel:
    """Return the genotypes of the demo's panel."""
    return read_panel(str(DEMO))


def mosaic_of(panel: ReferencePanel, seed: int, codes: Codes | None = None) -> Mosaic:
    """Return mosaics of the people of a panel, or of those of them who have the given codes."""
    _, panel_row, starts = lay_out_sites(panel, len(panel.variants))
    copied = panel.codes if codes is None else codes
    return Mosaic(copied, panel_row, starts, _MEAN_SEGMENT, 0.0, seed)


def write_frequencies(path: Path, panel: ReferencePanel) -> None:
    """Write the panel's allele frequencies as ``plink2 --freq`` does."""
    variants = panel.variants
    table = {
        "#CHROM": variants.chromosome,
        "ID": variants.identifier,
        "REF": variants.allele2,
        "ALT": variants.allele1,
        "ALT_FREQS": panel.a1_frequency,
        "OBS_CT": 2 * panel.codes.shape[1],
    }
    pd.DataFrame(table).to_csv(path, sep="\t", index=False)


@dataclass(frozen=True)
class People:
    """Parameters of simulated people, as those of `primo_scale simulate`."""

    samples: int
    seed: int
    variants: int | None = None
    phenotypes: int = 0
    heritability: float = 0.3
    causal_fraction: float = 0.1
    effects_seed: int = 0
    mean_segment: float = 200

    def write(self, panel: Path, prefix: Path) -> None:
        """Simulate the people as mosaics of a panel, unless their files exist."""
        if not Path(f"{prefix}.fam").exists():
            simulate(bfile=str(panel), out=str(prefix), **asdict(self))


@dataclass(frozen=True)
class Accuracy:
    """R^2, and the slope of the phenotype on the score, of each phenotype in fresh people."""

    r2: Float64
    slope: Float64


def clear(*paths: Path) -> None:
    """Delete directories and files of an earlier release, those that exist."""
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)


def budget_of(epsilon: float, people: int) -> dict[str, Any]:
    """Return the privacy parameters with delta 1/n^2; an infinite epsilon stands for no noise."""
    if np.isinf(epsilon):
        return {"non_private": True}
    return {"epsilon": epsilon, "delta": people**-2.0}


def accuracy_in(fresh: Path, release: Path, out: Path) -> Accuracy:
    """Evaluate a release in all people of a fileset, with its phenotypes beside it."""
    clear(out)
    evaluation = ps.evaluate(weights=release, pheno=f"{fresh}.pheno.tsv", bfile=fresh, out=out)
    found = [each.measures for each in evaluation.results if each.group == "all"]
    r2, slope = zip(*((each.r2.value, each.slope) for each in found), strict=True)
    return Accuracy(np.array(r2), np.array(slope))
