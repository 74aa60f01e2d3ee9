"""Scores without noise from individual data, the best of which releases are compared with.

For standardised genotypes Z of n people in LD blocks b and standardised phenotypes y:

* LDpred2-auto (Prive, Arbel and Vilhjalmsson, 2020) with the LD of the cohort itself: marginal
  effects Z'y/n, LD matrices Z_b'Z_b/n, point-normal effects by a Gibbs sampler, which draws the
  share of causal variants, and takes the variance of effects from the heritability of the sample.
* BLUP of all variants together, (Z'Z + r I)^-1 Z'y with r = d (1 - h2)/h2 and the true h2, by
  conjugate gradients; and the same in blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from bed_reader import open_bed

from experiments.gaussian_noise import Float64
from experiments.releases import Accuracy
from primo_scale.kernels.gibbs_sweep import EffectMaps, information, sweep
from primo_scale.machine import in_threads, usable_cpus

Float32 = npt.NDArray[np.float32]
_DISCARDED, _KEPT = 300, 500  # sweeps
_FIRST_SHARES = (0.01, 0.3)  # of causal variants, of as many chains
_LEAST_SHARE, _LEAST_HERITABILITY = 1e-5, 1e-3
_LEAST_EIGENVALUE = 1e-6  # of an LD matrix
_TOLERANCE, _MOST_STEPS = 1e-3, 60  # of conjugate gradients


@dataclass(frozen=True, eq=False)
class Genotypes:
    """Copies of allele 1 of a fileset without missing genotypes, and how they are standardised."""

    copies: npt.NDArray[np.int8]  # shape (n, d)
    mean: Float32
    scale: Float32  # inverse of the standard deviation, 0 for a variant that does not vary

    def standardised(self, columns: slice) -> Float32:
        """Return the standardised genotypes of some variants, shape (n, variants)."""
        found = self.copies[:, columns].astype(np.float32)
        found -= self.mean[columns]
        found *= self.scale[columns]
        return found

    def score(self, effects: Float64, blocks: Sequence[slice]) -> Float64:
        """Return the scores of everybody, shape (n, l)."""
        total = np.zeros((len(self.copies), effects.shape[1]))
        for block in blocks:
            total += self.standardised(block) @ effects[block].astype(np.float32)
        return total


@dataclass(frozen=True, eq=False)
class Sums:
    """Z'y of all variants, and the eigenvalues and eigenvectors of Z'Z of each LD block."""

    cross: Float64  # shape (d, l)
    spectra: Sequence[tuple[Float64, Float64]]

    def solved(self, target: Float64, penalty: float) -> Float64:
        """Return ``(Z_b'Z_b + r I)^-1`` times the target, block by block."""
        sizes = np.cumsum([len(values) for values, _ in self.spectra])[:-1]
        pairs = zip(self.spectra, np.split(target, sizes), strict=True)
        return np.vstack([u @ ((u.T @ g) / (s + penalty)[:, None]) for (s, u), g in pairs])


def accuracies(
    cohort: Path, fresh: Path, phenotypes: Sequence[str], boundaries: Sequence[int], h2: float
) -> dict[str, Accuracy]:
    """Return the accuracy of each phenotype's score in the fresh people, by method.

    `cohort` and `fresh` are prefixes of filesets with phenotypes beside them.
    """
    genotypes, y = _genotypes(cohort), _phenotypes(cohort, phenotypes)
    blocks = [slice(*pair) for pair in pairwise(boundaries)]
    scale = y.std(axis=0)
    sums = _sums(genotypes, (y - y.mean(axis=0)) / scale, blocks)
    penalty = len(sums.cross) * (1 - h2) / h2
    effects = {
        "LDpred2-auto": ldpred2_auto(sums, len(y), h2),
        "BLUP": blup(genotypes, sums, blocks, penalty),
        "BLUP in blocks": sums.solved(sums.cross, penalty),
    }
    others = Genotypes(_genotypes(fresh).copies, genotypes.mean, genotypes.scale)
    truth = _phenotypes(fresh, phenotypes)
    return {
        name: _accuracy(others.score(found, blocks) * scale, truth)
        for name, found in effects.items()
    }


def _accuracy(scores: Float64, phenotypes: Float64) -> Accuracy:
    scores, phenotypes = scores - scores.mean(axis=0), phenotypes - phenotypes.mean(axis=0)
    products, squares = (scores * phenotypes).sum(axis=0), (scores**2).sum(axis=0)
    r2 = products**2 / (squares * (phenotypes**2).sum(axis=0))
    return Accuracy(r2, products / squares)


def _genotypes(prefix: Path) -> Genotypes:
    with open_bed(f"{prefix}.bed", num_threads=usable_cpus()) as bed:
        copies = bed.read(dtype="int8", order="F")
    mean = copies.mean(axis=0, dtype=np.float64)
    spread = np.array([column.std() for column in copies.T])
    inverse = np.divide(1, spread, out=np.zeros_like(spread), where=spread > 0)
    return Genotypes(copies, mean.astype(np.float32), inverse.astype(np.float32))


def _phenotypes(prefix: Path, names: Sequence[str]) -> Float64:
    return pd.read_csv(f"{prefix}.pheno.tsv", sep="\t", usecols=list(names))[[*names]].to_numpy()


def _sums(genotypes: Genotypes, y: Float64, blocks: Sequence[slice]) -> Sums:
    cross, spectra = [], []
    for block in blocks:
        z = genotypes.standardised(block)
        cross.append(z.T @ y.astype(np.float32))
        spectra.append(np.linalg.eigh((z.T @ z).astype(np.float64)))
    return Sums(np.vstack(cross).astype(np.float64), spectra)


def blup(genotypes: Genotypes, sums: Sums, blocks: Sequence[slice], penalty: float) -> Float64:
    """Return ``(Z'Z + r I)^-1 Z'y``, by conjugate gradients preconditioned by the blocks."""
    effects = sums.solved(sums.cross, penalty)
    residual = sums.cross - _times(genotypes, effects, blocks, penalty)
    solved = sums.solved(residual, penalty)
    direction, norm = solved, (residual * solved).sum(axis=0)
    for _ in range(_MOST_STEPS):
        if (np.linalg.norm(residual, axis=0) <= _TOLERANCE * np.linalg.norm(sums.cross)).all():
            return effects
        image = _times(genotypes, direction, blocks, penalty)
        step = norm / (direction * image).sum(axis=0)
        effects, residual = effects + step * direction, residual - step * image
        solved = sums.solved(residual, penalty)
        before, norm = norm, (residual * solved).sum(axis=0)
        direction = solved + norm / before * direction
    raise ArithmeticError("conjugate gradients did not converge")


def _times(
    genotypes: Genotypes, effects: Float64, blocks: Sequence[slice], penalty: float
) -> Float64:
    scores = genotypes.score(effects, blocks).astype(np.float32)
    parts = [genotypes.standardised(block).T @ scores for block in blocks]
    return np.vstack(parts) + penalty * effects


def ldpred2_auto(sums: Sums, n_people: int, h2: float) -> Float64:
    """Return the posterior means of the effects, shape (d, l), the mean over chains.

    `h2` is the heritability that every chain starts with.
    """
    # Coordinates ``U'Z'y / sqrt(s)`` have the mean ``sqrt(s) U' beta`` and the variance 1.
    kept = [values > _LEAST_EIGENVALUE * n_people for values, _ in sums.spectra]
    spectra = [(s[k], u[:, k]) for (s, u), k in zip(sums.spectra, kept, strict=True)]
    variants = np.cumsum([0, *(len(u) for _, u in spectra)])
    parts = np.split(sums.cross, variants[1:-1])
    pairs = zip(spectra, parts, strict=True)
    values = np.vstack([(u.T @ part) / np.sqrt(s)[:, None] for (s, u), part in pairs])
    matrices = [(u * np.sqrt(s)).astype(np.float32) for s, u in spectra]
    maps = EffectMaps(
        entries=np.concatenate([matrix.ravel() for matrix in matrices]),
        starts=np.cumsum([0, *(matrix.size for matrix in matrices[:-1])]),
        variants=variants,
        coordinates=np.cumsum([0, *(len(s) for s, _ in spectra)]),
    )
    informations = information(maps, np.ones(len(values)))
    chains = [(j, share) for j in range(values.shape[1]) for share in _FIRST_SHARES]

    def run(chain: tuple[int, float]) -> Float64:
        column = np.ascontiguousarray(values[:, chain[0]])
        return _means(maps, informations, column, (chain[1], h2), n_people)

    means = np.array(in_threads(run, chains, usable_cpus()))
    return np.asarray(means.reshape(values.shape[1], len(_FIRST_SHARES), -1).mean(axis=1).T)


def _means(
    maps: EffectMaps,
    informations: Float64,
    values: Float64,
    start: tuple[float, float],
    n_people: int,
) -> Float64:
    """Return the posterior means of one chain, from its first share and heritability."""
    rng, d = np.random.default_rng(1), len(informations)
    chain, (share, h2) = (values.copy(), np.zeros(d), np.zeros(d)), start
    for number in range(_DISCARDED + _KEPT):
        if number == _DISCARDED:
            chain[2][:] = 0
        draws = np.stack([rng.random(d), rng.standard_normal(d)])
        variance = h2 / (d * share)
        sweep(maps, np.ones(len(values)), informations, chain, draws, (share, variance))
        causal = np.count_nonzero(chain[1])
        share = max(rng.beta(1 + causal, 1 + d - causal), _LEAST_SHARE)
        h2 = max(((values - chain[0]) ** 2).sum() / n_people, _LEAST_HERITABILITY)
    return chain[2] / _KEPT
