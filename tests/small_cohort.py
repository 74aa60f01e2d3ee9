"""Tiny cohort for fast tests of commands, which run in this process."""

from __future__ import annotations

import numpy as np
from click.testing import CliRunner

N, D = 44, 6


def command(main, *arguments):
    """Run a command in this process, and return its result."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def write_cohort(folder):
    """Write a cohort of 44 people, 6 variants and one phenotype, and return its folder."""
    packed = np.random.default_rng(0).integers(0, 256, (D, N // 4), dtype=np.uint8)
    folder.mkdir()
    (folder / "cohort.bed").write_bytes(b"\x6c\x1b\x01" + packed.tobytes())
    (folder / "cohort.bim").write_text("".join(f"1\trs{j}\t0\t{j + 1}\tA\tG\n" for j in range(D)))
    (folder / "cohort.fam").write_text("".join(f"f{i}\tp{i}\t0\t0\t1\t-9\n" for i in range(N)))
    rows = "".join(f"f{i}\tp{i}\t{i % 5}\n" for i in range(N))
    (folder / "pheno.tsv").write_text("FID\tIID\tT\n" + rows)
    (folder / "bounds.tsv").write_text("name\tlower\tupper\tmean\tsd\nT\t0\t4\t2\t1\n")
    return folder


def outcomes(cohort):
    """Return the options for the phenotype."""
    return ["--pheno", cohort / "pheno.tsv", "--pheno-bounds", cohort / "bounds.tsv"]
