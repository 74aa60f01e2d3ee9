"""Simulated people as mosaics of real people, streamed variant by variant in constant memory.

A simulated person copies the diploid genotypes of one panel member for a run of variants, then
those of another member, and so on: segment lengths are geometric, members are drawn uniformly, and
every chromosome starts with a new member. Because whole diploid genotypes are copied, the panel
need not be phased, and genotypes keep the panel's Hardy-Weinberg proportions and missing calls.
The population has closed forms: allele frequencies are those of the panel, and the covariance of
variants j and k of one chromosome is that of the panel times
``(1 - 1 / mean_segment) ** |j - k|``.

Every person has a SplitMix64 stream keyed by (seed, index of the person), so that the genotypes of
a person depend neither on the number of people nor on how the work is split. Only this module may
use a fixed seed outside tests: the simulated people do not exist and need no protection.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from primo_scale.genotypes.bed import GenotypeSlab
from primo_scale.interruption import check
from primo_scale.kernels.compiling import compiled, inlined
from primo_scale.kernels.packed import MISSING, packed_width
from primo_scale.machine import usable_cpus

SLAB_BYTES = 16 << 20
"""Size of the packed genotypes in memory at a time, in bytes."""

PEOPLE_PER_STRIPE = 1 << 20
"""Number of people whose state is in memory: 28 MiB, and 256 KiB per variant in a .bed file.

It is a multiple of 4.
"""

_CACHED_SUMS = 1 << 16  # sums of one task, which stay in a core's cache
_LEAST_SCORED = 64  # people of one task, however many scores they have
_PEOPLE_PER_TASK = 4096  # their state stays in a core's cache during the loop over variants
_LONGEST_RUN = 1e9  # a position plus a run is within int32
_NEVER = np.iinfo(np.int32).max

# SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).
_WEYL = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_MISSING_CALLS = np.uint64(0xD1B54A32D192ED03)  # separates their streams from those of segments


@dataclass(frozen=True, eq=False)
class Mosaic:
    """Population of mosaics with d variants."""

    # Raw PLINK values (0 for two copies of A1, 1 missing, 2 for one copy, 3 for no copy), with a
    # row for each variant and a column for each member of the panel.
    codes: npt.NDArray[np.uint8]
    panel_row: npt.NDArray[np.int32]  # row of `codes` that each variant copies, shape (d,)
    # Whether every person starts a new segment at the variant; True for the first. Shape (d,).
    chromosome_starts: npt.NDArray[np.bool_]
    mean_segment: float  # mean length of a segment in variants, at least 1
    # Share of calls that become missing in addition to those of the panel, in [0, 1).
    missing_rate: float
    seed: int  # from 0 to 2**64 - 1

    @property
    def n_variants(self) -> int:
        """Number of variants d."""
        return len(self.panel_row)


class GenotypeScores(NamedTuple):
    """Weighted sums over variants, as e sparse entries sorted by variant.

    Entry k adds ``value[k, g]`` to the sum ``score[k]`` if the raw PLINK value of the genotype at
    ``variant[k]`` is g; `value` has shape (e, 4).
    """

    variant: npt.NDArray[np.int64]
    score: npt.NDArray[np.int64]
    value: npt.NDArray[np.float64]


class _PeopleState(NamedTuple):
    """State of consecutive people between two variants; 28 bytes per person."""

    member: npt.NDArray[np.int32]
    segment_end: npt.NDArray[np.int32]
    next_missing: npt.NDArray[np.int32]
    stream: npt.NDArray[np.uint64]
    missing_stream: npt.NDArray[np.uint64]


class _SlabVariants(NamedTuple):
    """Consecutive variants: index of the first, panel rows, and starts of chromosomes."""

    first: int
    panel_row: npt.NDArray[np.int32]
    starts: npt.NDArray[np.bool_]


def genotype_slabs(mosaic: Mosaic, n_people: int) -> Iterator[GenotypeSlab]:
    """Generate people 0 to ``n_people - 1`` of the seed, stripe by stripe, in constant memory.

    All variants of one stripe of people come before those of the next, and a slab is overwritten by
    the next one. A slab has at least one variant.
    """
    for first in range(0, n_people, PEOPLE_PER_STRIPE):
        people = range(first, min(first + PEOPLE_PER_STRIPE, n_people))
        yield from _slabs_of_stripe(mosaic, people)


def score_people(
    mosaic: Mosaic, people: range, scores: GenotypeScores, n_scores: int
) -> npt.NDArray[np.float64]:
    """Sum `scores` over the genotypes of some people, before calls become missing.

    The result has shape (len(people), n_scores). Sums are added in variant order, so that the
    values of a person do not depend on `people`.
    """
    ends = np.append(np.flatnonzero(mosaic.chromosome_starts)[1:], mosaic.n_variants)
    panel, scale = (mosaic.codes, mosaic.panel_row), _log_scale(1 / mosaic.mean_segment)
    sums = np.empty((len(people), n_scores))
    step = max(_LEAST_SCORED, _CACHED_SUMS // max(1, n_scores))

    def score(first: int) -> None:
        """Sum the scores of some people, whose state stays in the cache."""
        few = people[first : first + step]
        found = np.zeros((n_scores, len(few)))
        member, reached = np.zeros(len(few), np.int32), np.zeros(len(few), np.int64)
        genotypes, streams = np.empty(len(few), np.uint8), _person_streams(mosaic.seed, few)
        people_now = member, reached, genotypes, streams
        _add_scores(panel, ends, scale, people_now, scores, found)
        sums[first : first + step] = found.T

    with ThreadPoolExecutor(usable_cpus()) as threads:
        list(threads.map(score, range(0, len(people), step)))
    return sums


def population_variance(mosaic: Mosaic, scores: GenotypeScores) -> float:
    """Return the exact population variance of the sum of all entries of `scores`.

    All entries must belong to one sum, and their values must average zero over the panel. With c_e
    the values of entry e over the panel members and rho = 1 - 1 / mean_segment, the variance is the
    mean over members of ``sum_e c_e (c_e + 2 s_e)``. Here ``s_e = rho^gap (s_{e-1} + c_{e-1})``
    accumulates the earlier entries of the chromosome, each weighted by the probability that it lies
    in the same segment.
    """
    rho = 1 - 1 / mosaic.mean_segment
    chromosome = np.cumsum(mosaic.chromosome_starts)[scores.variant]
    gaps = np.diff(scores.variant, prepend=0)
    same = np.diff(chromosome, prepend=0) == 0
    discount = np.where(same, rho**gaps, 0.0)
    total, earlier = 0.0, np.zeros(mosaic.codes.shape[1])
    for variant, value, factor in zip(scores.variant, scores.value, discount, strict=True):
        own = value[mosaic.codes[mosaic.panel_row[variant]]]
        earlier *= factor
        total += float(own @ (own + 2 * earlier))
        earlier += own
    return float(total / mosaic.codes.shape[1])


def _slabs_of_stripe(mosaic: Mosaic, people: range) -> Iterator[GenotypeSlab]:
    runs = [
        _start_people(mosaic, people[first : first + _PEOPLE_PER_TASK])
        for first in range(0, len(people), _PEOPLE_PER_TASK)
    ]
    scales = _log_scale(1 / mosaic.mean_segment), _log_scale(mosaic.missing_rate)
    width, step = packed_width(len(people)), packed_width(_PEOPLE_PER_TASK)
    buffer = np.empty((max(1, SLAB_BYTES // width), width), dtype=np.uint8)
    with ThreadPoolExecutor(usable_cpus()) as threads:
        for first in range(0, mosaic.n_variants, len(buffer)):
            check()
            variants = slice(first, first + len(buffer))
            starts = mosaic.chromosome_starts[variants]
            slab = _SlabVariants(first, mosaic.panel_row[variants], starts)
            packed = buffer[: len(slab.panel_row)]
            parts = [packed[:, start : start + step] for start in range(0, width, step)]
            list(threads.map(partial(_fill, mosaic.codes, slab, scales), runs, parts))
            yield first, people.start, packed


def _log_scale(chance: float) -> float:
    """Return the factor that turns the logarithm of a uniform number into a waiting time."""
    if chance >= 1:
        return 0.0
    return 1 / math.log1p(-chance) if chance > 0 else -math.inf


def _person_streams(seed: int, people: range) -> npt.NDArray[np.uint64]:
    streams = np.empty(len(people), dtype=np.uint64)
    _key_streams(np.uint64(seed), people.start, streams)
    return streams


def _start_people(mosaic: Mosaic, people: range) -> _PeopleState:
    streams = _person_streams(mosaic.seed, people)
    missing_streams = streams ^ _MISSING_CALLS
    next_missing = np.full(len(people), _NEVER, dtype=np.int32)
    if mosaic.missing_rate > 0:
        _first_missing(missing_streams, _log_scale(mosaic.missing_rate), next_missing)
    nowhere = np.zeros(len(people), dtype=np.int32)
    return _PeopleState(nowhere, nowhere.copy(), next_missing, streams, missing_streams)


@inlined
def _mixed(state: Any) -> Any:
    state = (state ^ (state >> np.uint64(30))) * _MIX_1
    state = (state ^ (state >> np.uint64(27))) * _MIX_2
    return state ^ (state >> np.uint64(31))


@inlined
def _run_length(bits: Any, scale: Any) -> Any:
    """Turn 64 random bits into a geometric length of at least 1."""
    uniform = (np.float64(bits >> np.uint64(11)) + 0.5) * 2.0**-53
    return np.int32(min(math.log(uniform) * scale, _LONGEST_RUN)) + 1


@inlined
def _new_segment(stream: Any, n_members: Any, scale: Any) -> Any:
    """Draw a panel member and a length; return them with the advanced stream."""
    first = stream + _WEYL
    second = first + _WEYL
    member = ((_mixed(first) >> np.uint64(32)) * np.uint64(n_members)) >> np.uint64(32)
    return np.int32(member), _run_length(_mixed(second), scale), second


@compiled
def _key_streams(seed: Any, first_person: Any, streams: Any) -> None:
    key = _mixed(seed + _WEYL)
    for i in range(streams.size):
        streams[i] = _mixed(key ^ _mixed(np.uint64(first_person + i) + _WEYL))


@compiled
def _first_missing(streams: Any, scale: Any, next_missing: Any) -> None:
    for i in range(streams.size):
        streams[i] += _WEYL
        next_missing[i] = _run_length(_mixed(streams[i]), scale) - 1


@compiled
def _fill(codes: Any, slab: Any, scales: Any, people: Any, packed: Any) -> None:
    """Write the genotypes of some people for a slab, and advance their state to its end."""
    n_people, n_members = people.member.size, codes.shape[1]
    segment_scale, missing_scale = scales
    for v in range(slab.panel_row.size):
        position, row = slab.first + v, codes[slab.panel_row[v]]
        for b in range(packed.shape[1]):
            byte = np.uint8(0)
            for k in range(min(4, n_people - 4 * b)):
                i = 4 * b + k
                if slab.starts[v] or people.segment_end[i] == position:
                    member, length, stream = _new_segment(
                        people.stream[i], n_members, segment_scale
                    )
                    people.member[i], people.stream[i] = member, stream
                    people.segment_end[i] = position + length
                code = row[people.member[i]]
                if people.next_missing[i] == position:
                    code = np.uint8(MISSING)
                    people.missing_stream[i] += _WEYL
                    gap = _run_length(_mixed(people.missing_stream[i]), missing_scale)
                    people.next_missing[i] = position + gap
                byte |= np.uint8(code << np.uint8(2 * k))
            packed[v, b] = byte


@compiled
def _add_scores(
    panel: Any, chromosome_ends: Any, scale: Any, people: Any, scores: Any, sums: Any
) -> None:
    """Add the scores of people, shape (scores, people), with segments drawn exactly as in `_fill`.

    `people` are the member, the end and a genotype of each person's current segment, and the
    stream. They are the inner loop, so that their sums and genotypes of one variant stay in the
    cache.
    """
    codes, panel_row = panel
    member, reached, genotypes, streams = people
    n_members, n_people, entry = codes.shape[1], streams.size, 0
    for end in chromosome_ends:
        variant = np.int64(-1)
        while variant < end - 1:
            within = entry < scores.variant.size and scores.variant[entry] < end
            variant = scores.variant[entry] if within else end - 1
            row = codes[panel_row[variant]]
            for i in range(n_people):
                while reached[i] <= variant:
                    member[i], length, streams[i] = _new_segment(streams[i], n_members, scale)
                    reached[i] = min(reached[i] + length, end)
                genotypes[i] = row[member[i]]
            while entry < scores.variant.size and scores.variant[entry] == variant:
                total, value = sums[scores.score[entry]], scores.value[entry]
                first, second, third, fourth = value[0], value[1], value[2], value[3]
                for i in range(n_people):  # a choice among numbers in registers is vectorised
                    g = genotypes[i]
                    low, high = first if g == 0 else second, third if g == 2 else fourth
                    total[i] += low if g < 2 else high
                entry += 1
