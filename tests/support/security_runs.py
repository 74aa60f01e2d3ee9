"""A small cohort with recognisable names and numbers, commands, and a cluster of processes."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from support import processes
from support.filesets import write_fileset_of
from support.processes import command_of
from support.small_cohort import outcomes

N_PEOPLE, N_VARIANTS = 7919, 37  # a number of people that stands in no log by chance
N_OBSERVED = 6151


def run(command: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return processes.run(command_of(command, arguments), umask=0)


@dataclass(frozen=True)
class Cohort:
    directory: Path

    @property
    def outcome_options(self) -> list[object]:
        return outcomes(self.directory)

    def write(self) -> None:
        rng = np.random.default_rng(7)
        dosages = rng.integers(0, 3, (N_VARIANTS, N_PEOPLE))
        prefix = write_fileset_of(self.directory / "cohort", dosages, range(1, N_VARIANTS + 1))
        people = [f"Family{i} Person{i}" for i in range(N_PEOPLE)]
        prefix.with_suffix(".fam").write_text("".join(f"{p} 0 0 1 -9\n" for p in people))
        values = rng.normal(size=N_PEOPLE)
        rows = [
            f"{p} {value:.4f} {'NA' if i >= N_OBSERVED else '1.5'}"
            for i, (p, value) in enumerate(zip(people, values, strict=True))
        ]
        (self.directory / "pheno.tsv").write_text("\n".join(["FID IID HEIGHT RARE", *rows]) + "\n")
        (self.directory / "bounds.tsv").write_text(
            "name\tlower\tupper\tmean\tsd\nHEIGHT\t-5\t5\t0\t1\nRARE\t-5\t5\t0\t1\n"
        )


@dataclass(frozen=True)
class RunningCluster:
    options: list[object]  # how a command reaches it
    directory: Path

    @property
    def logs(self) -> str:
        return "".join(path.read_text() for path in sorted(self.directory.glob("*.log")))
