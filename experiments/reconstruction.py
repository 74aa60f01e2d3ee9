"""Reconstruction of a person's genotypes from two releases that differ by that person.

After Paige, Bell, Bellet, Gascon and Ezer, "Reconstructing genotypes in private genomic databases
from genetic risk scores" (Journal of Computational Biology 28:435, 2021, doi
10.1089/cmb.2020.0445). With exact sums S = X'X and a ridge penalty lambda, a person with the coded,
centred genotypes x changes the weights from W1 to W2 so that ::

    (S + lambda I) (W2 - W1) = x r',    r = y - W2' x,

a matrix of rank one, whose column space is x. The attacker knows both releases, and S from the
cohort's own LD matrix or from a public panel. Every release is made by `primo_scale.release`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

import primo_scale as ps
from experiments.figure_drawing import draw
from experiments.gaussian_noise import Float64
from experiments.releases import DEMO
from experiments.reproduction import PaperFigure, Row, Task
from primo_scale.gaussian.calibration import release_mu
from primo_scale.genotypes.coding import read_reference_frequencies, reference_coding
from primo_scale.simulation.cohort import simulate

_FREQUENCIES = Path(f"{DEMO}.afreq")
N_PHENOTYPES, N_VARIANTS = 10, 200
N_OTHERS = 2000  # people outside the cohort; some are targets and bystanders
_RIDGE = N_VARIANTS * 0.7 / 0.3  # without noise, for effects of heritability 0.3
DELTA = 1e-9
EPSILONS = (1.0, 5.0, 20.0)
_ITSELF, _PUBLIC = "attack with the cohort's LD", "attack with the panel's LD"
_LIMITS = "commonest genotypes (left), bound (right)"
_SCALES = np.concatenate([sign * np.geomspace(1e-3, 1e3, 300) for sign in (1.0, -1.0)])


@dataclass(frozen=True, eq=False)
class Genotypes:
    """Copies of allele 1, shape (people, d), with the public coding k g - m of the product."""

    dosages: Float64
    multiplier: Float64
    centre: Float64

    @property
    def codes(self) -> Float64:
        """Coded genotypes."""
        return self.dosages * self.multiplier - self.centre


@dataclass(frozen=True, eq=False)
class Cohort:
    """A cohort of n people, other people after them, and the public panel."""

    folder: Path
    n: int
    people: list[str]
    everybody: Genotypes
    panel: Genotypes
    phenotypes: Float64  # of everybody, shape (people, l)

    def scatter(self, source: str) -> Float64:
        """Return the centred X'X of the cohort, or n times the covariance of the panel."""
        codes = self.everybody.codes[: self.n] if source == _ITSELF else self.panel.codes
        return np.asarray(self.n * np.cov(codes, rowvar=False, ddof=0))

    def release(self, name: str, epsilon: float | None, person: int | None = None) -> ps.Release:
        """Release weights of the cohort, with one more person if given; None adds no noise."""
        keep = self.folder / f"{name}.keep"
        members = [*self.people[: self.n], *([] if person is None else [self.people[person]])]
        keep.write_text("".join(f"{iid} {iid}\n" for iid in members))
        privacy = {"epsilon": epsilon, "delta": DELTA} if epsilon else {"non_private": True}
        return ps.release(
            bfile=self.folder / "all",
            keep=keep,
            pheno=self.folder / "all.pheno.tsv",
            pheno_bounds=self.folder / "all.pheno-bounds.tsv",
            ref_freq=_FREQUENCIES,
            **privacy,
            ridge=None if epsilon else _RIDGE,
            ledger=self.folder / f"{name}.sqlite",
            accept_noise=True,
            out=self.folder / name,
            purge_intermediates=True,
        )


def make_cohort(folder: Path, n: int, seed: int) -> Cohort:
    """Simulate a cohort as mosaics of the demo's panel, with `N_OTHERS` people beside it."""
    simulate(
        bfile=str(DEMO), out=str(folder / "all"), samples=n + N_OTHERS, seed=seed,
        variants=N_VARIANTS, mean_segment=60, phenotypes=N_PHENOTYPES, causal_fraction=0.2,
    )  # fmt: skip
    table = pd.read_csv(folder / "all.pheno.tsv", sep="\t", index_col="IID").drop(columns="FID")
    people = table.index.tolist()
    everybody = _genotypes(folder / "all", folder / "all.zarr")
    panel = _genotypes(DEMO, folder / "panel.zarr")
    return Cohort(folder, n, people, everybody, panel, table.to_numpy())


def _genotypes(bfile: Path, store: Path) -> Genotypes:
    variants = ps.ingest(bfile=bfile, out=store).variants
    coding = reference_coding(read_reference_frequencies(_FREQUENCIES, variants))
    first = slice(N_VARIANTS)
    multiplier, centre = coding.multiplier[first], coding.centre[first]
    dosages = ps.open_genotypes(store)[first].to_numpy().T.astype(np.float64)
    return Genotypes(dosages, multiplier.astype(np.float64), centre.astype(np.float64))


def weights_of(release: ps.Release) -> Float64:
    """Return the weights of one allele, shape (d, l)."""
    return release.weights[list(release.phenotypes)].to_numpy()


def reconstruct(
    before: ps.Release, after: ps.Release, scatter: Float64, coding: Genotypes
) -> Float64:
    """Return the attacker's estimate of the additional person's centred codes, up to a factor."""
    change = (weights_of(after) - weights_of(before)) / coding.multiplier[:, None]
    stated = after.document["estimation"]["penalties"]  # of a release without noise
    rank_one = scatter @ change + (stated[0] if stated else 0.0) * change
    return np.asarray(np.linalg.svd(rank_one / np.linalg.norm(rank_one))[0][:, 0])


def rounded(direction: Float64, coding: Genotypes, mean: Float64) -> Float64:
    """Return 0, 1 or 2 copies for every variant: the genotypes nearest to a multiple of x.

    `mean` has the public mean dosages, shape (d,).
    """
    unit = direction / np.linalg.norm(direction)
    best, found = np.inf, mean
    for scale in _SCALES:
        guess = np.clip(np.rint(unit * scale * len(unit) / coding.multiplier + mean), 0, 2)
        x = (guess - mean) * coding.multiplier
        along = float(x @ unit)
        squared = float(x @ x)
        left = 1 - along**2 / squared if squared else 1.0
        if left < best:
            best, found = left, guess
    return np.asarray(found)


def attack(
    cohort: Cohort, seed: int, epsilon: float | None, before: ps.Release | None
) -> Iterator[Row]:
    """Attack the releases without and with one target, and yield a row for each source of LD.

    `recognised` is the share of bystanders, who are in no release, whom the estimate resembles less
    than the target, and `r2` the mean R^2 of the scores in people outside the cohort.
    """
    target, bystanders = cohort.n + seed, slice(cohort.n + N_OTHERS // 2, None)
    before = before or cohort.release(f"before-{seed}-{epsilon}", epsilon)
    after = cohort.release(f"after-{seed}-{epsilon}", epsilon, target)
    coding, genotypes = cohort.everybody, cohort.everybody.dosages
    mean = cohort.panel.dosages.mean(axis=0)
    others = slice(cohort.n, None)
    scores = genotypes[others] @ weights_of(before)
    pairs = zip(scores.T, cohort.phenotypes[others].T, strict=True)
    r2 = [np.corrcoef(*pair)[0, 1] ** 2 for pair in pairs]
    for source in (_ITSELF, _PUBLIC):
        direction = reconstruct(before, after, cohort.scatter(source), coding)
        of_target, of_bystanders = (
            _likeness(direction, (genotypes[people] - mean) * coding.multiplier)
            for people in (slice(target, target + 1), bystanders)
        )
        yield {
            "epsilon": epsilon or np.inf,
            "LD": source,
            "target": seed,
            "right": float((rounded(direction, coding, mean) == genotypes[target]).mean()),
            "guessed": float((np.rint(mean) == genotypes[target]).mean()),
            "recognised": float((of_bystanders < of_target).mean()),
            "r2": float(np.mean(r2)),
        }


def _likeness(direction: Float64, rows: Float64) -> Float64:
    """Return the absolute cosine of a direction with each row."""
    return np.asarray(np.abs(rows @ direction) / np.linalg.norm(rows, axis=1))


def run(task: Task) -> list[Row]:
    """Attack one target for each seed of a task, in a cohort that all tasks share."""
    epsilon = float(task.setting["epsilon"]) or None
    with tempfile.TemporaryDirectory() as folder:
        cohort = make_cohort(Path(folder), int(task.setting["n"]), seed=1)
        # Without noise, the release without the target is the same for every target.
        before = None if epsilon else cohort.release("before", None)
        return [row for seed in task.seeds for row in attack(cohort, seed, epsilon, before)]


def recognition_bound(epsilon: float) -> float:
    """Return the largest chance with which anybody can tell a target from a bystander.

    The release with the target and the one with the bystander are neighbours, and Gaussian noise of
    mu separates them with a chance of ``Phi(mu / 2)`` at most.
    """
    return 1.0 if np.isinf(epsilon) else float(norm.cdf(release_mu(epsilon, DELTA) / 2))


def draw_attack(rows: pd.DataFrame, path: Path) -> None:
    """Draw the shares of right genotypes and of recognised targets against epsilon."""
    levels = sorted(rows.epsilon.unique(), reverse=True)
    names = ["no noise" if np.isinf(level) else f"{level:g}" for level in levels]

    def panel(column: str, title: str, limit: list[float]) -> Callable[[Any], None]:
        """Return the function that draws one column of the rows."""

        def drawn(axes: Any) -> None:
            """Draw the column for both sources of LD."""
            for number, source in enumerate((_ITSELF, _PUBLIC)):
                values = rows[source == rows.LD].groupby("epsilon")[column]
                mean, error = (found.loc[levels] for found in (values.mean(), values.sem()))
                places = np.arange(len(levels)) + 0.16 * (number - 0.5)
                axes.errorbar(places, mean, 1.96 * error.fillna(0), fmt="o", label=source)
            axes.plot(range(len(levels)), limit, "_", ms=32, mew=2, color="C3", label=_LIMITS)
            axes.set_xticks(range(len(levels)), names)
            axes.set(xlabel="epsilon of each release", ylim=(0, 1.05), title=title)

        return drawn

    guessed = [float(rows.guessed.mean())] * len(levels)
    bound = [recognition_bound(level) for level in levels]
    right = panel("right", "share of genotypes that are right", guessed)
    draw([[right, panel("recognised", "target told from a bystander", bound)]], path)


FIGURES = {
    "reconstruction": PaperFigure(
        "Paige et al.: genotypes from two releases that differ by one person",
        tuple({"n": 20_000, "epsilon": epsilon} for epsilon in (0.0, *EPSILONS)),
        run,
        draw_attack,
        repetitions=30,
        quick_settings=tuple({"n": 2000, "epsilon": epsilon} for epsilon in (0.0, 5.0)),
        quick_repetitions=2,
    ),
}
