"""LD blocks: runs of neighbouring variants that share a diagonal block of X'X."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from primo_scale.errors import InputError, UsageError
from primo_scale.genotypes.tables import VariantTable
from primo_scale.ranges import runs_of
from primo_scale.verify.chromosomes import canonical_chromosome

LEAST_INSIDE = 0.1
"""Share of the variants that must lie inside a listed block. With the right blocks nearly all
variants do; with another genome build or blocks of other chromosomes hardly any."""
_WINDOW_PREFIX = "window:"
# Limits the number to 64 bits; int() refuses numbers with thousands of digits.
_WHOLE_NUMBER = re.compile(r"[0-9]{1,18}")
_NUMBER = re.compile(r"[+-]?[0-9.]+(e[+-]?[0-9]+)?", re.IGNORECASE)

_Row = tuple[int, int, int]  # start, end and line of an LD block


def block_boundaries(specification: str | None, variants: VariantTable) -> tuple[int, ...]:
    """Return where each LD block of ``--ld-blocks`` starts, then the number of variants.

    Without a specification there is one dense block, and ``window:N`` gives the fewest equal blocks
    of at most N variants that do not cross a chromosome. Any other specification is the path of a
    table of ``chrom start end`` (base pairs, header optional, the format of LDetect), in which a
    variant belongs to the last block of its chromosome that starts at or before the variant. Blocks
    may touch, but not overlap.
    """
    if specification is None:
        return (0, len(variants))
    if specification.startswith(_WINDOW_PREFIX):
        return _window_boundaries(_window_size(specification), variants.chromosome)
    if _WHOLE_NUMBER.fullmatch(specification) and not Path(specification).exists():
        raise UsageError(
            "is a number, and neither a window nor a table of LD blocks",
            where="--ld-blocks",
            value=specification,
            remedy=f"For blocks of at most {specification} variants write --ld-blocks "
            f"{_WINDOW_PREFIX}{specification}",
        )
    return _file_boundaries(Path(specification), variants)


def _window_size(specification: str) -> int:
    text = specification.removeprefix(_WINDOW_PREFIX)
    if not _WHOLE_NUMBER.fullmatch(text) or int(text) < 1:
        raise UsageError(
            "the window is not a positive number of variants",
            where="--ld-blocks",
            value=specification[:60],
            remedy="Write for example --ld-blocks window:500",
        )
    return int(text)


def _window_boundaries(size: int, chromosome: npt.NDArray[np.object_]) -> tuple[int, ...]:
    boundaries = [0]
    for start, stop in runs_of(chromosome):
        n_blocks = -(-(stop - start) // size)
        edges = np.linspace(start, stop, n_blocks + 1).round().astype(int)
        boundaries.extend(int(edge) for edge in edges[1:])
    return tuple(boundaries)


def _file_boundaries(path: Path, variants: VariantTable) -> tuple[int, ...]:
    blocks = _read_blocks(path)
    labels = np.empty(len(variants), dtype=object)
    inside = 0
    for chromosome in dict.fromkeys(variants.chromosome):
        name = canonical_chromosome(str(chromosome))
        if name not in blocks:
            raise InputError(
                "lists no LD block for a chromosome of the genotypes",
                where=path,
                value=chromosome,
                remedy="Add its blocks, or select other chromosomes with --chr",
            )
        here = variants.chromosome == chromosome
        starts, ends, _ = np.array(blocks[name]).T
        index = np.searchsorted(starts, variants.position[here], side="right") - 1
        inside += int(np.sum((index >= 0) & (variants.position[here] <= ends[index])))
        labels[here] = [f"{name}:{max(i, 0)}" for i in index]
    if inside < LEAST_INSIDE * len(variants):
        raise InputError(
            f"{inside} of {len(variants)} variants lie inside its LD blocks",
            where=path,
            limit=f"at least {LEAST_INSIDE:.0%} of the variants",
            remedy="Check that the blocks and the .bim file are of one genome build",
        )
    runs = runs_of(labels)
    if len(runs) != len(set(labels)):
        raise InputError(
            "its LD blocks are not runs of neighbouring variants",
            where=path,
            remedy="Sort the variants by position first (plink2 --make-pgen --sort-vars)",
        )
    return (0, *(stop for _, stop in runs))


def _read_blocks(path: Path) -> dict[str, list[_Row]]:
    """Return the blocks by canonical chromosome, in the order of their starts."""
    blocks: dict[str, list[_Row]] = {}
    for number, fields in _rows(path):
        if len(fields) < 3 or not all(map(_WHOLE_NUMBER.fullmatch, fields[1:3])):
            what = "is not `chrom start end`"
            if len(fields) >= 3:
                what = "does not start and end at whole numbers of base pairs"
            raise InputError(
                f"an LD block {what}", where=f"{path}:{number}", value=" ".join(fields)[:60]
            )
        row = int(fields[1]), int(fields[2]), number
        if row[1] < row[0]:
            raise InputError(
                "an LD block ends before it starts",
                where=f"{path}:{number}",
                value=" ".join(fields)[:60],
                remedy="Give chrom, start and end in this order",
            )
        blocks.setdefault(canonical_chromosome(fields[0]), []).append(row)
    for rows in blocks.values():
        rows.sort()
        _refuse_overlaps(path, rows)
    return blocks


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the fields of each row after the header, if there is one."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (FileNotFoundError, IsADirectoryError, UnicodeDecodeError) as error:
        raise InputError(
            "cannot be read as a table of LD blocks",
            where=path,
            remedy="Give --ld-blocks a table of chrom start end, or window:N such as window:500",
        ) from error
    for number, line in enumerate(lines, start=1):
        fields = line.split()
        is_header = number == 1 and len(fields) > 1 and not _NUMBER.fullmatch(fields[1])
        if fields and not is_header:
            yield number, fields


def _refuse_overlaps(path: Path, rows: Sequence[_Row]) -> None:
    """Refuse a block that starts before another one ends; `rows` have the order of the starts."""
    for (start, end, line), (next_start, next_end, next_line) in itertools.pairwise(rows):
        if next_start < end:
            raise InputError(
                f"the LD blocks of lines {line} and {next_line} overlap",
                where=path,
                value=f"{start} to {end} and {next_start} to {next_end}",
                remedy="End each block at or before the start of the next one",
            )
