"""Copies of PLINK 1 filesets."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np


def copy_fileset(source: Path, target: Path, *, random_genotypes: bool = False) -> Path:
    """Copy a fileset, optionally with random genotypes, and return the prefix of the copy."""
    for kind in (".bed", ".bim", ".fam"):
        shutil.copy(f"{source}{kind}", f"{target}{kind}")
    if random_genotypes:
        content = np.fromfile(f"{target}.bed", dtype=np.uint8)
        content[3:] = np.random.default_rng(1).integers(0, 256, len(content) - 3)
        content.tofile(f"{target}.bed")
    return target
