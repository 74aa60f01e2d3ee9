"""make demo: a private release from real genotypes, scored on people outside its cohort.

The cohort is simulated from the public panel in ``demo/``; all other commands are those that a user
types. All output goes to ``demo-run/``, which is emptied first.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from primo_scale.cli.command_line import ContractCommand
from primo_scale.errors import PrimoError

if TYPE_CHECKING:
    import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
PANEL = "demo/1000g_eur343_chr22"
RUN = "demo-run"
N_TRAINING, N_FRESH = 30_000, 3_000
HERITABILITY = 0.3
EPSILON, DELTA = 5, 1e-9  # delta is about 1 / N_TRAINING^2

# SNPs; 0.14 million base pairs, about as far as linkage disequilibrium reaches in Europeans.
MEAN_SEGMENT = 60

MEANING = f"""\
Real: the genotypes of 343 people of the 1000 Genomes Project at 3,000 SNPs of chromosome 22, and
hence the allele frequencies and the correlations between neighbouring SNPs. Simulated: the people,
each a mosaic of segments of those 343 ({MEAN_SEGMENT} SNPs long on average), and the phenotypes, of
heritability {HERITABILITY} on these SNPs alone. The fresh people were made from other random
numbers and took no part in the release. 3,000 SNPs are few: expect less of a private release of a
whole genome from a cohort of this size."""


class DemoFailed(PrimoError):
    """A command of the demo failed, after it printed the reason itself."""

    def __init__(self, command: str, exit_code: int) -> None:
        super().__init__(f"the demo stops: {command} ended with exit code {exit_code}")
        self.exit_code = exit_code


@click.command(cls=ContractCommand)
def main() -> None:
    """Simulate a cohort, release weights with and without privacy, and compare on fresh people."""
    shutil.rmtree(ROOT / RUN, ignore_errors=True)
    (ROOT / RUN).mkdir()
    _simulate("train", N_TRAINING, seed=1, missing=0.005)
    _simulate("fresh", N_FRESH, seed=2, missing=0)
    budget = ["--epsilon", EPSILON, "--delta", DELTA, "--ledger", f"{RUN}/ledger.sqlite"]
    _release("release", budget)
    _release("release-non-private", ["--non-private"])
    _run("verify", f"{RUN}/release")
    _run("ingest", "--bfile", f"{RUN}/fresh", "--out", f"{RUN}/fresh.zarr")
    click.echo(f"\n{_compare()}\n\n{MEANING}\n\nThe release is in {RUN}/release/.")


def _simulate(name: str, n_people: int, *, seed: int, missing: float) -> None:
    people = ["--samples", n_people, "--seed", seed, "--missing", missing]
    people += ["--mean-segment", MEAN_SEGMENT]
    traits = ["--phenotypes", 3, "--prevalence", 0.2, "--heritability", HERITABILITY]
    _run("simulate", "--bfile", PANEL, "--out", f"{RUN}/{name}", *people, *traits)


def _release(name: str, options: list[object]) -> None:
    inputs = ["--bfile", f"{RUN}/train"]
    for option in ("pheno", "covar", "pheno-bounds", "covar-bounds"):
        inputs += [f"--{option}", f"{RUN}/train.{option}.tsv"]
    model = ["--ref-freq", f"{PANEL}.afreq", "--ld-panel", PANEL]
    _run("gwas_release", *inputs, *model, *options, "--out", f"{RUN}/{name}")


def _run(command: str, *arguments: object) -> None:
    """Run one of the project's commands, shown as a user would type it."""
    words = ["-m", f"pipelines.{command}", *map(str, arguments)]
    click.secho(f"\n$ python {' '.join(words)}", bold=True)
    sys.stdout.flush()
    exit_code = subprocess.run([sys.executable, *words], cwd=ROOT, check=False).returncode
    if exit_code:
        raise DemoFailed(command, exit_code)


def _compare() -> str:
    """Score the fresh people with each set of weights, and return a table of what each explains."""
    import pandas as pd

    from primo_scale import open_release

    dosages = _read_dosages(ROOT / RUN / "fresh.zarr")
    trait, covariates = (
        pd.read_csv(ROOT / RUN / f"fresh.{table}.tsv", sep="\t", index_col="IID")
        .drop(columns="FID")
        .loc[dosages.index]
        for table in ("pheno", "covar")
    )
    score_of, whole = "R^2 of the score", "1 - RSS/TSS with age, sex, intercept"
    columns = {}
    for name in ("release", "release-non-private"):
        release = open_release(ROOT / RUN / name)
        score = _score(dosages, release.weights.set_index("ID")[[*release.phenotypes]])
        label = "private" if name == "release" else "non-private"
        columns[score_of, label] = score.corrwith(trait) ** 2
        columns[whole, label] = _explained(trait, _predict(score, covariates, release.covariates))
    truth = _score(dosages, _read_true_effects(ROOT / RUN / "train.effects.tsv"))
    columns[score_of, "true effects"] = truth.corrwith(trait) ** 2
    table = pd.DataFrame(columns)[[score_of, whole]].loc[trait.columns]
    return (
        f"What the weights explain in {N_FRESH:,} fresh people, none of them in the release of "
        f"{N_TRAINING:,}\n(epsilon {EPSILON}, delta {DELTA:g})\n\n"
        + table.to_string(float_format="{:.3f}".format)
    )


def _read_dosages(store: Path) -> pd.DataFrame:
    import pandas as pd

    from primo_scale import open_genotypes

    dosages = open_genotypes(store)
    people, variants = dosages["sample"].to_numpy(), dosages["variant"].to_numpy()
    return pd.DataFrame(dosages.to_numpy().T.astype(float), index=people, columns=variants)


def _read_true_effects(path: Path) -> pd.DataFrame:
    import pandas as pd

    table = pd.read_csv(path, sep="\t")
    return table.pivot(index="ID", columns="name", values="beta").fillna(0.0)


def _score(dosages: pd.DataFrame, per_allele: pd.DataFrame) -> pd.DataFrame:
    return dosages[per_allele.index] @ per_allele


def _predict(score: pd.DataFrame, covariates: pd.DataFrame, weights: pd.DataFrame) -> pd.DataFrame:
    of_covariates = covariates @ weights.loc[covariates.columns]
    return score + of_covariates + weights.loc["(intercept)"]


def _explained(trait: pd.DataFrame, prediction: pd.DataFrame) -> pd.Series[float]:
    residual, deviation = trait - prediction, trait - trait.mean()
    return 1 - (residual**2).sum() / (deviation**2).sum()


if __name__ == "__main__":
    main()
