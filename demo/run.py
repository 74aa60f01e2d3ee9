"""make demo: a private release from real genotypes, evaluated in people outside its cohort.

The cohort is simulated from the public panel in ``demo/``. Every command is one that a user types.
All output goes to ``demo-run/``, which is emptied first.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import click

from primo_scale.cli.command_line import ContractCommand
from primo_scale.errors import PrimoError

ROOT = Path(__file__).resolve().parents[1]
PANEL = "demo/1000g_eur343_chr22"
RUN = "demo-run"
N_TRAINING, N_FRESH = 30_000, 3_000
HERITABILITY, PREVALENCE = 0.3, 0.2
EPSILON, DELTA = 5, 1e-9  # delta is about 1 / N_TRAINING^2

MEANING = f"""\
Real: the genotypes of 343 people of the 1000 Genomes Project at 3,000 SNPs of chromosome 22, and
hence the allele frequencies and the correlations between neighbouring SNPs. Simulated: the people,
each a mosaic of segments of those 343, and the phenotypes, of heritability {HERITABILITY} on these
SNPs alone. The fresh people were made from other random numbers and took no part in the release.
3,000 SNPs are few: expect less of a private release of a whole genome from a cohort of this
size."""


class DemoFailed(PrimoError):
    """A command of the demo failed, after it printed the reason itself."""

    def __init__(self, command: str, exit_code: int) -> None:
        super().__init__(f"the demo stops: {command} ended with exit code {exit_code}")
        self.exit_code = exit_code


@click.command(cls=ContractCommand)
def main() -> None:
    """Simulate a cohort, release weights with and without noise, and evaluate both elsewhere."""
    shutil.rmtree(ROOT / RUN, ignore_errors=True)
    (ROOT / RUN).mkdir()
    simulate("train", N_TRAINING, seed=1, missing=0.005)
    simulate("fresh", N_FRESH, seed=2, missing=0)
    release_privately()
    _release("release-non-private", ["--non-private"])
    _run("verify", f"{RUN}/release")
    _evaluate()
    click.echo(f"\n{MEANING}\n\nThe release is in {RUN}/release/.")


def simulate(name: str, n_people: int, *, seed: int, missing: float) -> None:
    """Simulate people, their phenotypes and covariates."""
    people = ["--samples", n_people, "--seed", seed, "--missing", missing]
    traits = ["--phenotypes", 3, "--prevalence", PREVALENCE, "--heritability", HERITABILITY]
    _run("simulate", "--bfile", PANEL, "--out", f"{RUN}/{name}", *people, *traits)


def release_privately() -> None:
    """Make the private release."""
    budget = ["--epsilon", EPSILON, "--delta", DELTA, "--ledger", f"{RUN}/ledger.sqlite"]
    _release("release", budget)


def _release(name: str, options: list[object]) -> None:
    inputs = ["--bfile", f"{RUN}/train"]
    for option in ("pheno", "covar", "pheno-bounds", "covar-bounds"):
        inputs += [f"--{option}", f"{RUN}/train.{option}.tsv"]
    model = ["--ref-freq", f"{PANEL}.afreq", "--ld-panel", PANEL]
    _run("release", *inputs, *model, *options, "--out", f"{RUN}/{name}")


def _evaluate() -> None:
    weights = ["--weights", f"{RUN}/release", "--weights", f"{RUN}/release-non-private"]
    tables = ["--pheno", f"{RUN}/fresh.pheno.tsv", "--covar", f"{RUN}/fresh.covar.tsv"]
    people = ["--bfile", f"{RUN}/fresh", *tables, "--prevalence", f"CASE={PREVALENCE}"]
    _run("evaluate", *weights, *people, "--out", f"{RUN}/evaluation")


def _run(command: str, *arguments: object) -> None:
    """Run one of the project's commands, shown as a user would type it."""
    words = [command, *map(str, arguments)]
    click.secho(f"\n$ primo-scale {' '.join(words)}", bold=True)
    sys.stdout.flush()
    program = [sys.executable, "-m", "primo_scale"]
    exit_code = subprocess.run([*program, *words], cwd=ROOT, check=False).returncode
    if exit_code:
        raise DemoFailed(command, exit_code)


if __name__ == "__main__":
    main()
