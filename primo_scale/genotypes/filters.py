"""Selection of people and variants by public lists of the user.

The options ``--keep``, ``--remove``, ``--extract``, `exclude` and ``--chr`` work as in PLINK 2,
with two differences. A line with an IID alone matches any FID, whereas PLINK 2 looks for FID ``0``.
Without ``--chr``, only the chromosomes are used of which ``plink2 --score`` counts two copies
(`primo_scale.genotypes.tables`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from primo_scale.errors import InputError
from primo_scale.genotypes import coding, tables

Importance = tuple[npt.NDArray[np.float64], Callable[[tables.Index], float]]
"""Importance of d variants from public numbers, 0 for one that is never chosen, and a function that
returns the share of what all variants explain, given the increasing positions of some."""


@dataclass(frozen=True)
class Selection:
    """Files that list people to keep or remove and variants to extract or exclude."""

    keep: Path | None = None
    remove: Path | None = None
    extract: Path | None = None
    exclude: Path | None = None
    chromosomes: tuple[str, ...] | None = None  # canonical codes; None: `SCORED_CHROMOSOMES`
    ref_maf: float | None = None  # least frequency of the minor allele in the panel `ref_freq`
    ref_freq: Path | None = None  # public allele frequencies
    # Option, largest number and importance: the most important variants, after all other filters.
    ranking: tuple[str, int, Callable[[tables.VariantTable], Importance]] | None = None


NO_LISTS = Selection()
"""Selection by no option, which leaves out what `select_variants` leaves out by default."""


@dataclass(frozen=True)
class FilterCount:
    """Effect of one filter. Counts of people are private, counts of variants are public."""

    filter: str  # option, or description of a filter without an option
    of: str  # kind of rows, "samples" or "variants"
    named: int  # entries of the list
    found: int  # entries that the input has
    left: int  # rows left after the filter
    reason: str = ""  # reason to leave out the `found` rows, for a filter without a list
    share: float = 1.0  # share of what all variants explain that the chosen ones have; public

    def __str__(self) -> str:
        if self.reason:
            return (
                f"{self.filter}: {self.found} {self.of} left out ({self.reason}), {self.left} left"
            )
        return f"{self.filter}: {self.named} named, {self.found} found, {self.left} {self.of} left"


def select_samples(
    samples: tables.SampleTable, selection: Selection
) -> tuple[tables.Index, tuple[FilterCount, ...]]:
    """Apply ``--keep``, then ``--remove``, and return the rows left and the effect of each list.

    A list that cannot be read, an entry that matches several rows, and a selection of nobody are
    refused.
    """
    chosen = np.ones(len(samples), dtype=np.bool_)
    counts = []
    for option, path in (("--keep", selection.keep), ("--remove", selection.remove)):
        if path is None:
            continue
        named = read_people(path)
        rows = _find_people(samples, named, path)
        listed = np.zeros(len(samples), dtype=np.bool_)
        listed[rows] = True
        chosen &= listed if option == "--keep" else ~listed
        counts.append(FilterCount(option, "samples", len(named), len(rows), int(chosen.sum())))
    return _some_left(chosen, "nobody is left", counts), tuple(counts)


def select_variants(
    variants: tables.VariantTable, selection: Selection
) -> tuple[tables.Index, tuple[FilterCount, ...]]:
    """Apply ``--chr`` or its default, ``--extract``, `exclude` and `ref_maf`.

    Variants of negative position are left out, as in PLINK 2. A list entry selects all variants
    with this identifier. Returns the rows left, in increasing order, and the effect of each given
    list and of each kind of chromosome left out by default.
    """
    chosen = np.ones(len(variants), dtype=np.bool_)
    counts: list[FilterCount] = []

    def leave_out(what: str, wrong: npt.NDArray[np.bool_], reason: str, share: float = 1) -> None:
        rows = np.flatnonzero(chosen & wrong)
        chosen[rows] = False
        n, left = len(rows), int(chosen.sum())
        counts.append(FilterCount(what, "variants", n, n, left, reason, share))

    negative = variants.position < 0
    if negative.any():
        leave_out("variants of negative position", negative, "as in PLINK 2")
    chromosome = tables.canonical_chromosomes(variants)
    present = dict.fromkeys(chromosome.tolist())
    if selection.chromosomes is not None:
        chosen &= tables.is_one_of(chromosome, selection.chromosomes)
        found = sum(name in present for name in selection.chromosomes)
        named = len(selection.chromosomes)
        counts.append(FilterCount("--chr", "variants", named, found, int(chosen.sum())))
    else:
        kinds: dict[tuple[str, str], list[str]] = {}
        for name in present:
            if (words := tables.left_out(name)) is not None:
                kinds.setdefault(words, []).append(name)
        for (kind, reason), names in kinds.items():
            leave_out(kind, tables.is_one_of(chromosome, names), reason)
    for option, path in (("--extract", selection.extract), ("exclude", selection.exclude)):
        if path is None:
            continue
        identifiers = frozenset(token for line in _read_lines(path) for token in line.split())
        listed = tables.is_one_of(variants.identifier, identifiers)
        found = len(set(variants.identifier[listed]))
        chosen &= listed if option == "--extract" else ~listed
        counts.append(FilterCount(option, "variants", len(identifiers), found, int(chosen.sum())))
    least, panel = selection.ref_maf, selection.ref_freq
    if least is not None and panel is not None:
        frequency = coding.read_reference_frequencies(panel, variants).a1_frequency
        common = np.minimum(frequency, 1 - frequency) >= least  # False without a frequency
        leave_out("ref_maf", ~common, f"rarer than {least:g} in {panel.name}, or not in it")
    if selection.ranking is not None:
        option, top, importance = selection.ranking
        rows, others = np.flatnonzero(chosen), np.ones_like(chosen)
        values, share_of = importance(variants.select(rows))
        order = np.argsort(-values, kind="stable")[:top]  # of equal values the first are chosen
        best = np.sort(order[values[order] > 0])
        others[rows[best]] = False
        weighted = np.count_nonzero(values)
        reason = f"not among the {top} most important of {weighted} that have a weight"
        leave_out(option, others, reason, share_of(best))
    return _some_left(chosen, "no variant is left", counts), tuple(counts)


def read_people(path: Path) -> frozenset[tuple[str | None, str]]:
    """Read a list of people as (FID, IID), where the FID is None in a line with an IID alone.

    The first line may be a header, ``#FID IID`` or ``#IID``. Other lines that begin with ``#`` are
    comments. Columns after the IID are ignored.
    """
    people: set[tuple[str | None, str]] = set()
    family_given = True
    for line in _read_lines(path):
        tokens = line.split()
        if not tokens:
            continue
        if tokens[0] in ("#FID", "#IID"):
            family_given = tokens[0] == "#FID"
        elif tokens[0].startswith("#"):
            continue
        elif family_given and len(tokens) > 1:
            people.add((tokens[0], tokens[1]))
        else:
            people.add((None, tokens[0]))
    return frozenset(people)


def _read_lines(path: Path) -> Iterator[str]:
    for line, content, _ in tables.numbered_lines(path):
        # Lines of older programs end in a carriage return alone.
        yield from tables.utf8_text(content, path, line).splitlines()


def _find_people(
    samples: tables.SampleTable, named: frozenset[tuple[str | None, str]], path: Path
) -> list[int]:
    """Return the rows of the named people; refuse an entry that matches several rows."""
    rows: list[int] = []
    hits: Counter[tuple[str | None, str]] = Counter()
    for row, (fid, iid) in enumerate(zip(samples.family, samples.individual, strict=True)):
        entries = [key for key in ((fid, iid), (None, iid)) if key in named]
        hits.update(entries)
        if entries:
            rows.append(row)
    repeated = [key for key, count in hits.items() if count > 1]
    if repeated:
        value = " ".join(part for part in repeated[0] if part is not None)
        remedy = "Give FID and IID, and check that every person has one row"
        raise InputError("an entry matches several rows", where=path, value=value, remedy=remedy)
    return rows


def _some_left(
    chosen: npt.NDArray[np.bool_], complaint: str, counts: list[FilterCount]
) -> tables.Index:
    index = np.flatnonzero(chosen)
    if not len(index):
        raise InputError(
            complaint,
            value="; ".join(str(count) for count in counts) or None,
            remedy="Check that the genotype files hold the chromosomes of --chr and the "
            "identifiers in the lists",
        )
    return index
