"""Pictures of report.html: the released weights of the first phenotypes, as paths of SVG.

They are computed from the files of the release alone, and thinned to a bounded number of points. A
verifier, who has no library of pictures, draws the same bytes again (docs/report.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, groupby, islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from primo_scale.publication.bounded_text import bounded_lines
from primo_scale.publication.document import Document
from primo_scale.publication.file_names import CENTRE_FILE, PGS_DIRECTORY
from primo_scale.publication.gzip_files import open_gzip_text
from primo_scale.publication.pgs import PGS_SUFFIX, pgs_file_stems

MOST_PHENOTYPES = 3
_STRETCHES, _KEPT = 480, 3  # stretches of a crowded axis, and points that are kept in each
_CELLS = 60, 40  # cells of the effect-size picture, of which each has one point
WIDTH, HEIGHT = 6800, 1900
"""Size of the drawing area in units of the paths, without axes."""
_MOST_TICKS, _BETWEEN_NAMES = 4, 330  # ticks of an axis; distance of two chromosomes' names
_SMALLEST, _LARGEST = 1e-300, 1e300  # effects that the arithmetic of axes can hold

_Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Panel:
    """One picture: an area with axes, points and horizontal lines."""

    title: str
    description: str  # of the values on both axes
    points: str  # path of SVG, one point each
    x_ticks: tuple[tuple[int, str], ...]  # place and label
    y_ticks: tuple[tuple[int, str], ...]
    lines: tuple[tuple[int, str], ...] = ()  # place and label of horizontal lines


@dataclass(frozen=True)
class _Effects:
    """Released weights of a phenotype, in the order of the files."""

    chromosomes: list[str]
    per_allele: _Numbers  # phenotype sds per copy of the effect allele, shape (d,)
    frequency: _Numbers  # public frequency of the effect allele, shape (d,)

    @property
    def per_sd(self) -> _Numbers:
        """Absolute effects in phenotype sds per genotype sd of the public frequency."""
        return np.abs(self.per_allele) * np.sqrt(2 * self.frequency * (1 - self.frequency))


def draw_pictures(directory: Path, document: Document) -> dict[str, tuple[Panel, ...]]:
    """Return the pictures of the first phenotypes by name, drawn from the files of a release.

    A malformed file raises one of `check_weights.UNREADABLE`.
    """
    phenotypes = document["public_inputs"]["phenotypes"][:MOST_PHENOTYPES]
    stems = pgs_file_stems([phenotype["name"] for phenotype in phenotypes])
    with (directory / CENTRE_FILE).open(encoding="utf-8") as file:
        rows = islice(bounded_lines(file, document), 2, None)
        frequency = np.array([float(row.split("\t")[4]) for row in rows])
    drawn = {}
    for number, (phenotype, stem) in enumerate(zip(phenotypes, stems, strict=True)):
        path = directory / PGS_DIRECTORY / f"{stem}{PGS_SUFFIX}"
        with open_gzip_text(path) as file:
            effects = _read_effects(bounded_lines(file, document), phenotype["sd"], frequency)
        drawn[phenotype["name"]] = tuple(_panels(effects, document, number))
    return drawn


def _read_effects(lines: Iterable[str], sd: float, frequency: _Numbers) -> _Effects:
    rows = (line.split("\t") for line in lines if not line.startswith("#"))
    next(rows)  # names of the columns
    chromosomes, weights = [], []
    for row in rows:
        chromosomes.append(row[1])
        weights.append(float(row[5]))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # a release may be crafted
        scaled = np.clip(np.array(weights) / sd, -_LARGEST, _LARGEST)
    return _Effects(chromosomes, scaled, frequency)


def _panels(effects: _Effects, document: Document, number: int) -> Iterator[Panel]:
    """Yield the pictures of the phenotype with this number."""
    yield _along_the_genome(effects)
    if document["public_inputs"]["reference_frequencies"] != "uninformative":
        yield _by_frequency(effects)
    yield _by_block(effects, document, number)


def _along_the_genome(effects: _Effects) -> Panel:
    values = effects.per_sd
    top, ticks = _axis(float(values.max()))
    names: list[tuple[int, str]] = []
    start = 0
    for name, run in groupby(effects.chromosomes):
        length = len(list(run))
        middle = _place(start + length / 2, len(values), WIDTH)
        if not names or middle - names[-1][0] >= _BETWEEN_NAMES:
            names.append((middle, name))
        start += length
    return Panel(
        "Weights along the genome",
        "absolute weight, in phenotype sds per genotype sd, against the variant's place in the "
        "files, by chromosome",
        _points(values, top),
        tuple(names),
        ticks,
    )


def _by_frequency(effects: _Effects) -> Panel:
    top, ticks = _axis(float(np.abs(effects.per_allele).max()))
    columns = np.minimum(effects.frequency * _CELLS[0], _CELLS[0] - 1).astype(np.int64)
    rows = np.rint((effects.per_allele / top + 1) / 2 * _CELLS[1]).astype(np.int64)
    n_rows = _CELLS[1] + 1
    columns, rows = np.divmod(np.unique(columns * n_rows + rows), n_rows)
    end = ticks[-1][1]
    return Panel(
        "Effect sizes by frequency",
        "weight, in phenotype sds per copy of the effect allele, against the public frequency of "
        "that allele; a point stands for one or more variants",
        _path(
            (2 * columns + 1) * WIDTH // (2 * _CELLS[0]),
            HEIGHT - rows * HEIGHT // _CELLS[1],
        ),
        tuple((_place(share, 1, WIDTH), f"{share:g}") for share in (0, 0.25, 0.5, 0.75, 1)),
        ((HEIGHT, f"−{end}"), (HEIGHT // 2, "0"), (0, end)),
    )


def _by_block(effects: _Effects, document: Document, number: int) -> Panel:
    sizes = document["cohort"]["block_sizes"]
    edges = [min(edge, len(effects.per_allele)) for edge in accumulate(sizes, initial=0)]
    largest = float(effects.per_sd.max()) or 1.0
    sums = np.concatenate([[0.0], np.cumsum((effects.per_sd / largest) ** 2)])
    means = np.maximum(np.diff(sums[edges]), 0) / np.array(sizes, dtype=np.float64)
    values = largest * np.sqrt(means)
    levels = dict(_errors_of_one_effect(document, number))
    top, ticks = _axis(max(float(values.max()), *levels.values()))
    return Panel(
        "Signal and noise by LD block",
        "root mean square of the weights in a block, in phenotype sds per genotype sd, against "
        "the block's place; lines: errors of the effect of one variant alone",
        _points(values, top),
        ((WIDTH // 2, f"LD blocks 1 to {len(sizes)}"),),
        ticks,
        tuple((HEIGHT - _place(level, top, HEIGHT), name) for name, level in levels.items()),
    )


def _errors_of_one_effect(document: Document, number: int) -> Iterator[tuple[str, float]]:
    """Yield names and standard deviations, in phenotype sds per genotype sd.

    A coded genotype has an sd of `genotype_unit`; about one copy, with unit 1, it has sqrt(1/2) at
    frequency 1/2. Noise on LD components is not noise on the effect of a variant, and left out.
    """
    cohort, public = document["cohort"], document["public_inputs"]
    held_out = (document.get("hold_out") or {"people": 0})["people"]
    people = (cohort["n_samples"] or cohort["nominal_n"]) - held_out
    unit = public["genotype_unit"]
    yield "sampling of people", 1 / math.sqrt(people)
    mechanism = None if cohort.get("component_sizes") else document["mechanism"]
    for query in mechanism["queries"] if mechanism else ():
        if query["name"] == "phenotype_cross":
            scale = people * (unit if unit > 1 else math.sqrt(0.5)) * public["phenotype_unit"]
            slope = document["estimation"]["attenuation"][number]
            yield "noise of this release", max(query["sigma"]) / (scale * slope)


def _points(values: _Numbers, top: float) -> str:
    """Return the path of values, of which every crowded stretch keeps the largest ones."""
    d, shown = len(values), np.arange(len(values))
    if d > _STRETCHES * _KEPT:
        parts = np.array_split(shown, _STRETCHES)
        largest = [np.argsort(-values[part], kind="stable")[:_KEPT] for part in parts]
        shown = np.concatenate([part[kept] for part, kept in zip(parts, largest, strict=True)])
    x = (2 * shown + 1) * WIDTH // (2 * d)
    return _path(x, HEIGHT - np.rint(values[shown] / top * HEIGHT).astype(np.int64))


def _path(x: npt.NDArray[np.int64], y: npt.NDArray[np.int64]) -> str:
    """Return points as lines of no length, whose round ends are drawn."""
    return "".join(f"M{a} {b}h0" for a, b in zip(x.tolist(), y.tolist(), strict=True))


def _axis(largest: float) -> tuple[float, tuple[tuple[int, str], ...]]:
    """Return the upper end of an axis from 0, and its ticks at round numbers."""
    largest = largest if largest > _SMALLEST else 1.0
    power = 10.0 ** math.floor(math.log10(largest / _MOST_TICKS))
    step = power * next(m for m in (1, 2, 5, 10, 20) if m * power * _MOST_TICKS >= largest)
    top = step * math.ceil(largest / step)
    ticks = [step * count for count in range(round(top / step) + 1)]
    return top, tuple((HEIGHT - _place(tick, top, HEIGHT), f"{tick:g}") for tick in ticks)


def _place(value: float, whole: float, length: int) -> int:
    return round(value / whole * length)
