"""Pictures of report.html: SVG paths from released weights and public numbers alone.

A figure library would need a script or fixed colours in every report; a path of points follows the
page's dark mode, prints sharply, and takes a few kilobytes however many variants there are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from primo_scale.genotypes.tables import canonical_chromosomes
from primo_scale.publication.weights import Floats, ScoringWeights

Names = npt.NDArray[np.object_]
Integers = npt.NDArray[np.int64]
MOST_PICTURES = 60
"""Phenotypes with a picture; the table has all."""
WIDTH, HEIGHT, SIDE = 420, 130, 120
"""Pixels of the plotted area by position, its height, and the width of that by frequency."""
_COLUMN, _EACH_COLUMN = 2, 2  # pixels, and largest effects in them that are drawn as dots
_LOCI, _APART = 3, 1_000_000  # named variants, and base pairs between them
_LABEL = (110, 16)  # pixels that a variant's name takes
_TICK = 22  # pixels between the names of chromosomes


@dataclass(frozen=True)
class Picture:
    """Points of one phenotype's weights, in pixels; y grows downwards."""

    chromosomes: list[tuple[str, float, str]]  # name or nothing, middle, and path of the points
    loci: list[tuple[float, float, str]]  # strongest variants that are far apart
    noise: float  # height of the line of noise
    tick: tuple[float, float]  # a round effect, and its height
    by_frequency: str | None  # path of effects by minor allele frequency; None without any
    summary: str  # for readers who do not see it


def picture_of(weights: ScoringWeights, number: int, sd: float, noise: float) -> Picture:
    """Return the picture of a phenotype whose public standard deviation is `sd`.

    An effect is that of a standard deviation of the genotype, in those of the phenotype. `noise` is
    the standard error that the effect of a single variant would have.
    """
    frequency = weights.centre_dosage / 2
    spread = np.sqrt(2 * frequency * (1 - frequency))
    effects = np.abs(np.nan_to_num(weights.per_allele[:, number] * spread)) / (sd or 1.0)
    top = max(float(effects.max(initial=0.0)), noise) * 1.08 or 1.0
    y = HEIGHT * (1 - effects / top)
    names = canonical_chromosomes(weights.variants)
    x, drawn = _places(names, weights.variants.position), []
    labelled = -float(_TICK)
    for name in dict.fromkeys(names):
        here = names == name
        middle = float(x[here].mean())
        is_labelled = middle - labelled >= _TICK
        labelled = middle if is_labelled else labelled
        drawn.append((name if is_labelled else "", middle, _path(x[here], y[here])))
    loci = [
        (float(x[j]), float(y[j]), weights.variants.identifier[j])
        for j in _strongest(effects, x, y, names, weights.variants.position)
    ]
    minor = np.minimum(frequency, 1 - frequency)
    by_frequency = _path(minor / 0.5 * SIDE, y) if np.ptp(minor) > 0 else None
    named = ", ".join(name for *_, name in loci)
    summary = f"released effects by position; the largest are of {named}" if named else "no effect"
    round_effect = _round_below(top)
    tick = (round_effect, HEIGHT * (1 - round_effect / top))
    return Picture(drawn, loci, HEIGHT * (1 - noise / top), tick, by_frequency, summary)


def _round_below(value: float) -> float:
    """Return the largest of 1, 2 and 5 times a power of 10 that is not above a value."""
    power = 10.0 ** np.floor(np.log10(value))
    return float(power * max(digit for digit in (1, 2, 5) if digit * power <= value * (1 + 1e-9)))


def _places(names: Names, positions: Integers) -> Floats:
    """Return the x of every variant: chromosomes side by side, each as long as its positions."""
    x, start = np.zeros(len(names)), 0.0
    for name in dict.fromkeys(names):
        here = names == name
        inside = positions[here] - positions[here].min()
        if not np.ptp(inside):
            inside = np.arange(here.sum())
        x[here] = start + inside
        start += float(inside.max()) * 1.02 + 1
    return x / max(start, 1.0) * WIDTH


def _strongest(
    effects: Floats, x: Floats, y: Floats, names: Names, positions: Integers
) -> list[int]:
    """Return the largest effects that are far apart, in base pairs and in the picture."""
    found: list[int] = []
    for j in np.argsort(-effects)[:200].tolist():
        near = (
            (names[i] == names[j] and abs(int(positions[i]) - int(positions[j])) < _APART)
            or (abs(x[i] - x[j]) < _LABEL[0] and abs(y[i] - y[j]) < _LABEL[1])
            for i in found
        )
        if effects[j] > 0 and len(found) < _LOCI and not any(near):
            found.append(j)
    return found


def _path(x: Floats, y: Floats) -> str:
    """Return a path of the largest effects as dots, and of a line from 0 to those below them.

    A dot is a stroke of length 0 with round ends.
    """
    column = x // _COLUMN
    order = np.lexsort((y, column))
    rank = np.arange(len(order)) - np.searchsorted(column[order], column[order])
    dots = order[rank < _EACH_COLUMN]
    points = np.unique(np.stack([x[dots], y[dots]]).round(1), axis=1).T.tolist()
    lines = order[rank == _EACH_COLUMN]
    ends = np.stack([(column[lines] + 0.5) * _COLUMN, y[lines].round(1)]).T.tolist()
    return "".join(
        [*(f"M{a:g} {b:g}h0" for a, b in points), *(f"M{a:g} {HEIGHT}V{b:g}" for a, b in ends)]
    )
