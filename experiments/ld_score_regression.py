"""``python -m experiments.ld_score_regression``: LDSC on the summary statistics of releases.

The commands of ldsc 2.0.1 read ``sumstats/`` as a recipient of a release would. LD scores are
LDSC's own, from genotypes of other people of the population. Heritability and intercept are
averaged over the phenotypes of the releases that state the same privacy. A second run continues
the first.
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pandas as pd
from scipy.stats import sem

from experiments.result_tables import markdown_table

LD_WINDOW = 1_000  # variants on each side, of a chromosome whose LD decays within some hundred
# Without further options, the intercept is estimated from variants of chi^2 < 30.
MODELS = {
    "default": (),
    "all-variants": ("--two-step", "1000000"),
    "intercept-1": ("--no-intercept",),
}
_HERITABILITY = re.compile(r"Total Observed scale h2: (\S+) \((\S+)\)")
_INTERCEPT = re.compile(r"Intercept: (\S+) \((\S+)\)")
_MEAN_CHI_SQUARE = re.compile(r"Mean Chi\^2: (\S+)")


@dataclass(frozen=True)
class Estimate:
    """Result of one regression; the errors are LDSC's own, from a jackknife over variants."""

    heritability: float
    heritability_error: float
    intercept: float
    mean_chi_square: float


@dataclass(frozen=True)
class LDSC:
    """The commands of ldsc 2.0.1, and LD scores computed by them."""

    commands: Path  # bin directory of an environment with ldsc 2.0.1
    folder: Path  # of its outputs
    reference: Path  # prefix of a fileset of other people of the population

    def _call(self, command: str, *options: object, check: bool = True) -> None:
        program = list(map(str, [self.commands / command, *options]))
        done = subprocess.run(program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if check and done.returncode:
            raise click.ClickException(f"{command} failed: {done.stdout[-500:]}")

    def ld_scores(self) -> Path:
        """Return the prefix of the LD scores.

        ldsc 2.0.1 opens its file of the number of variants as binary and fails after it has written
        the LD scores, so that this function writes the number.
        """
        prefix = self.folder / "reference"
        if not Path(f"{prefix}.l2.M").exists():
            options = ("--bfile", self.reference, "--ld-wind-snps", LD_WINDOW, "--yes-really")
            self._call("ldsc.py", "--l2", *options, "--out", prefix, check=False)
            scores = pd.read_csv(f"{prefix}.l2.ldscore.gz", sep="\t")
            Path(f"{prefix}.l2.M").write_text(f"{len(scores)}\n")
        return prefix

    def estimate(self, release: Path, phenotype: str, model: str, people: int | None) -> Estimate:
        """Return the estimate for a phenotype of a release; `people` replaces n_eff as N."""
        name = f"{release.name}-{phenotype}-{people or 'n_eff'}"
        log, munged = self.folder / f"{name}-{model}.log", self.folder / f"{name}.sumstats.gz"
        if not munged.exists():
            table = self.folder / f"{name}.tsv"
            source = release / "sumstats" / f"{phenotype}.tsv.gz"
            table.write_bytes(gzip.decompress(source.read_bytes()))  # LDSC does not read gzip
            number = ("--N", people) if people else ("--N-col", "n_eff")
            columns = ("--frq", "effect_allele_frequency", *number)
            self._call(
                "munge_sumstats.py", "--sumstats", table, *columns, "--out", table.with_suffix("")
            )
        if not log.exists():
            scores = self.ld_scores()
            regression = ("--ref-ld", scores, "--w-ld", scores, "--not-M-5-50", *MODELS[model])
            self._call("ldsc.py", "--h2", munged, *regression, "--out", log.with_suffix(""))
        return _read_log(log.read_text())


def _read_log(text: str) -> Estimate:
    heritability = _HERITABILITY.search(text)
    chi_square = _MEAN_CHI_SQUARE.search(text)
    if heritability is None or chi_square is None:
        raise click.ClickException(f"LDSC failed: {text[-500:]}")
    intercept = _INTERCEPT.search(text)
    return Estimate(
        heritability=float(heritability[1]),
        heritability_error=float(heritability[2]),
        intercept=1.0 if intercept is None else float(intercept[1]),
        mean_chi_square=float(chi_square[1]),
    )


def _rows(tool: LDSC, releases: tuple[Path, ...]) -> Iterator[list[str]]:
    """Yield a row of the table for each privacy parameter and model."""
    groups: dict[str, list[Path]] = {}
    for release in releases:
        guarantee = json.loads((release / "release.json").read_text())["guarantee"]
        epsilon = f"{guarantee['epsilon']:g}" if guarantee else "not private"
        groups.setdefault(epsilon, []).append(release)
    for epsilon, members in groups.items():
        files = [
            (release, path.name.removesuffix(".tsv.gz"))
            for release in members
            for path in (release / "sumstats").iterdir()
        ]
        for model in MODELS:
            found = pd.DataFrame([tool.estimate(*file, model, None) for file in files])
            heritability = found["heritability"]
            yield [
                epsilon,
                str(len(files)),
                f"{found['mean_chi_square'].mean():.2f}",
                model,
                _mean(heritability),
                f"{heritability.std():.3f}",
                f"{found['heritability_error'].mean():.3f}",
                _mean(found["intercept"]),
            ]


def _mean(values: pd.Series) -> str:
    """Return the mean and its standard error over phenotypes."""
    return f"{values.mean():.4f} +- {sem(values):.4f}"


@click.command()
@click.option("--ldsc", type=click.Path(path_type=Path), required=True, help="Its bin directory.")
@click.option("--reference", type=click.Path(path_type=Path), required=True, metavar="PREFIX")
@click.option("--folder", type=click.Path(path_type=Path), required=True, help="Files of LDSC.")
@click.argument("releases", type=click.Path(path_type=Path), nargs=-1, required=True)
def main(ldsc: Path, reference: Path, folder: Path, releases: tuple[Path, ...]) -> None:
    """Print the heritability that LDSC finds in RELEASES, which have sumstats/."""
    folder.mkdir(parents=True, exist_ok=True)
    header = ("epsilon", "traits", "mean chi^2", "model", "h2", "SD", "LDSC's SE", "intercept")
    click.echo(markdown_table(header, _rows(LDSC(ldsc, folder, reference), releases)))


if __name__ == "__main__":
    main()
