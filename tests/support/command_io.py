"""The demo's panel, options for a cohort made of it, and the digest and errors of commands."""

import re
from pathlib import Path
from typing import Any

from primo_scale.simulation.cohort import simulate

PANEL = Path(__file__).resolve().parents[2] / "demo" / "1000g_eur343_chr22"


def simulated(prefix: Path, samples: int, seed: int, **choices: Any) -> Path:
    simulate(str(PANEL), str(prefix), samples, seed, **choices)
    return prefix


def table_options(prefix: Path | str) -> list[str]:
    names = ("pheno", "covar", "pheno-bounds", "covar-bounds")
    return [word for name in names for word in (f"--{name}", f"{prefix}.{name}.tsv")]


def error_in(stderr: str) -> str:
    """Return the error of a command, which must be its last line and its only error."""
    lines = stderr.splitlines()
    assert "Traceback" not in stderr, stderr
    assert [line for line in lines if line.startswith("error:")] == lines[-1:], stderr
    return lines[-1]


def digest_in(output: str) -> str:
    (digest,) = re.findall(r"^statistics sha256: ([0-9a-f]{64})$", output, re.MULTILINE)
    return str(digest)
