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
_WIDTH, _HEIGHT, _COLUMN = 640, 130, 2  # of the plotted area, in pixels
_EACH_COLUMN = 3  # largest effects of a column of pixels that are drawn
_LOCI, _APART = 3, 1_000_000  # named variants, and base pairs between them
_CELL = 3  # pixels of a cell of the picture by frequency, which holds one point
_SIDE = 150


@dataclass(frozen=True)
class Picture:
    """Points of one phenotype's weights, in pixels; y grows downwards."""

    chromosomes: list[tuple[str, float, str]]  # name, middle, and path of each one's points
    loci: list[tuple[float, float, str]]  # strongest variants that are far apart
    noise: float | None  # height of the line of noise, if it is inside the picture
    top: float  # effect at the upper edge
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
    y = _HEIGHT * (1 - effects / top)
    names = canonical_chromosomes(weights.variants)
    x, drawn = _places(names, weights.variants.position), []
    for name in dict.fromkeys(names):
        here = np.flatnonzero(names == name)
        shown = _largest(x[here], effects[here])
        drawn.append((name, float(x[here].mean()), _path(x[here][shown], y[here][shown])))
    loci: list[tuple[float, float, str]] = []
    for j in _strongest(effects, names, weights.variants.position):
        loci.append((float(x[j]), float(y[j]), weights.variants.identifier[j]))
    minor = np.minimum(frequency, 1 - frequency)
    by_frequency = None
    if np.ptp(minor) > 0:
        by_frequency = _path(*_thinned(minor / 0.5 * _SIDE, y))
    named = ", ".join(name for *_, name in loci)
    summary = f"released effects by position; the largest are of {named}" if named else "no effect"
    line = _HEIGHT * (1 - noise / top)
    return Picture(drawn, loci, line, top, by_frequency, summary)


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
    return x / max(start, 1.0) * _WIDTH


def _largest(x: Floats, effects: Floats) -> Integers:
    """Return the positions of the largest effects in every column of pixels."""
    order = np.lexsort((-effects, x // _COLUMN))
    columns = (x // _COLUMN)[order]
    first = np.searchsorted(columns, columns)
    return order[np.arange(len(order)) - first < _EACH_COLUMN]


def _strongest(effects: Floats, names: Names, positions: Integers) -> list[int]:
    found: list[int] = []
    for j in np.argsort(-effects)[:200].tolist():
        near = (
            names[i] == names[j] and abs(int(positions[i]) - int(positions[j])) < _APART
            for i in found
        )
        if effects[j] > 0 and len(found) < _LOCI and not any(near):
            found.append(j)
    return found


def _thinned(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    cells = np.unique(np.stack([x // _CELL, y // _CELL]), axis=1)
    return (cells[0] + 0.5) * _CELL, (cells[1] + 0.5) * _CELL


def _path(x: Floats, y: Floats) -> str:
    """Return a path of a dot at every point: strokes of length 0 with round ends."""
    points = np.unique(np.stack([x, y]).round(1), axis=1).T.tolist()
    return "".join(f"M{a:g} {b:g}h0" for a, b in points)
