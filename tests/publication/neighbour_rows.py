"""Pairs of rows that a promise must hide, and the shift of a release between two of them."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from release_examples import PHENOTYPE_NORM, ROW_NORM, Mode

SIZES = (3, 4)  # variants of the two blocks
EDGES = ((0, 3), (3, 7))
N_PHENOTYPES = 2


@dataclass(frozen=True)
class Row:
    """Clipped record of one person: genotypes and phenotypes."""

    x: np.ndarray
    y: np.ndarray


NOBODY = Row(np.zeros(sum(SIZES)), np.zeros(N_PHENOTYPES))


def statistics(row: Row) -> dict[str, np.ndarray]:
    return {
        "phenotype_cross": np.outer(row.x, row.y),
        "phenotype_gram": np.outer(row.y, row.y),
    }


def squared_shift(document: dict[str, Any], one: Row, other: Row, *, gram: bool = True) -> float:
    """Return ``sum (change / sigma)^2`` over all noisy numbers except counts and eigenvalue."""
    queries = {each["name"]: each for each in document["mechanism"]["queries"]}
    before, after = statistics(one), statistics(other)
    total = 0.0
    for name in before.keys() & queries.keys():
        total += noisy_numbers(before[name] - after[name], queries[name], 0)
    if gram and "gram" in queries:
        for block, (start, stop) in enumerate(EDGES):
            change = np.outer(one.x[start:stop], one.x[start:stop])
            change -= np.outer(other.x[start:stop], other.x[start:stop])
            index = block if len(queries["gram"]["sigma"]) > 1 else 0
            copies = document["mechanism"]["gram_copies"]
            total += copies * noisy_numbers(change, queries["gram"], index)
    return total


def noisy_numbers(change: np.ndarray, noisy: dict[str, Any], index: int) -> float:
    if noisy["layout"] == "full":
        return float((change**2).sum()) / noisy["sigma"][index] ** 2
    beside = change[np.triu_indices(len(change), k=1)]
    diagonal = float((change.diagonal() ** 2).sum()) / noisy["sigma"][index] ** 2
    return diagonal + float((beside**2).sum()) / noisy["off_diagonal_sigma"][index] ** 2


def clipped(row: Row, kind: Mode) -> Row:
    """Return a row clipped as in docs/maths/clipping-and-integers.md, without rounding."""
    x, y = row.x.copy(), row.y
    if kind.privacy == "label":
        longest = math.sqrt(PHENOTYPE_NORM) * min(1, math.sqrt(ROW_NORM) / norm(x))
        return Row(x, y * min(1, longest / norm(y)))
    for (start, stop), bound in zip(EDGES, kind.block_norms or (), strict=False):
        x[start:stop] *= min(1, math.sqrt(bound) / norm(x[start:stop]))
    x *= min(1, math.sqrt(ROW_NORM) / norm(x))
    return Row(x, y * min(1, math.sqrt(PHENOTYPE_NORM) / norm(y)))


def norm(vector: np.ndarray) -> float:
    return max(float(np.linalg.norm(vector)), 1e-300)


def neighbours(rng: np.random.Generator, kind: Mode, trials: int) -> list[tuple[Row, Row]]:
    """Return pairs of rows that the promise must hide, some of them nearly parallel and long."""
    pairs = []
    for _ in range(trials):
        one, other = (random_row(rng) for _ in range(2))
        mix = rng.choice([0.0, 0.3, 0.75, 1.0])
        sign = rng.choice([-1.0, 1.0])
        other = Row(
            mix * one.x + (1 - mix) * other.x,
            sign * (mix * one.y + (1 - mix) * other.y),
        )
        if kind.privacy == "label":
            other = dataclasses.replace(other, x=one.x)
        one, other = clipped(one, kind), clipped(other, kind)
        if kind.adjacency == "add-remove":
            other = dataclasses.replace(one, y=NOBODY.y) if kind.privacy == "label" else NOBODY
        pairs.append((one, other))
    return pairs


def random_row(rng: np.random.Generator) -> Row:
    scale = 10 ** rng.uniform(2.5, 4)
    x = rng.normal(size=sum(SIZES)) * rng.choice([0.0, 0.3, 1.0], size=sum(SIZES)) * scale
    return Row(x, rng.normal(size=N_PHENOTYPES) * scale)
