"""Options for the tables of a simulated cohort, and the digest that commands print."""

from __future__ import annotations

import re
from pathlib import Path


def table_options(prefix: Path | str) -> list[str]:
    """Return the options for phenotypes, covariates and bounds of a simulated cohort."""
    names = ("pheno", "covar", "pheno-bounds", "covar-bounds")
    return [word for name in names for word in (f"--{name}", f"{prefix}.{name}.tsv")]


def digest_in(output: str) -> str:
    """Return the digest of the statistics, which a command prints once."""
    (digest,) = re.findall(r"^statistics sha256: ([0-9a-f]{64})$", output, re.MULTILINE)
    return str(digest)
