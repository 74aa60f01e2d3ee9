"""People made of segments of real people, streamed variant by variant in constant memory.

A simulated person copies the diploid genotypes of one panel member for a run of variants, then
those of another, and so on: segment lengths are geometric, members are drawn uniformly, and every
chromosome starts with a new member. Whole diploid genotypes are copied, so an unphased panel will
do, genotypes keep the panel's Hardy-Weinberg proportions and missing calls, and the population has
closed forms: allele frequencies are the panel's, and the covariance of variants j and k of one
chromosome is the panel's times ``(1 - 1 / mean_segment) ** |j - k|``.

Every person owns a SplitMix64 stream keyed by (seed, index of the person), so a person's genotypes
depend on neither the number of people nor how the work is cut. A fixed seed is right here and
nowhere else in the project: these people do not exist, and there is nothing to protect.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

SLAB_BYTES = 1 << 24
"""Packed genotypes held at a time; with the panel, all the memory that generation takes."""

_PEOPLE_PER_TASK = 4096  # their state stays in a core's own cache while the variants go by
_NEVER = np.iinfo(np.int32).max
_MISSING_CODE = 1
_WEYL = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_MISSING_STREAM = np.uint64(0xD1B54A32D192ED03)


@dataclass(frozen=True)
class Mosaic:
    """A population of mosaics.

    Attributes
    ----------
    codes
        uint8 (panel variants, panel members): PLINK's two-bit codes (0 two copies of A1, 1 missing,
        2 one copy, 3 none).
    rows
        int32 (variants,): row of `codes` that each simulated variant copies.
    chromosome_starts
        bool (variants,): variants at which everyone gets a new panel member; the first is one.
    mean_segment
        Mean length of a segment in variants, at least 1.
    missing_rate
        Share of calls set to missing beyond the panel's own, in [0, 1).
    seed
        Seed of the people, 0 to 2**64 - 1.
    """

    codes: NDArray[np.uint8]
    rows: NDArray[np.int32]
    chromosome_starts: NDArray[np.bool_]
    mean_segment: float
    missing_rate: float
    seed: int

    @property
    def n_variants(self) -> int:
        """Number of simulated variants."""
        return int(self.rows.size)


class SparseScores(NamedTuple):
    """Sums over variants of a value that depends on the genotype: entries sorted by variant.

    `variant` and `score` are int64 (entries,); `value` is float64 (entries, 4), by PLINK code.
    """

    variant: NDArray[np.int64]
    score: NDArray[np.int64]
    value: NDArray[np.float64]


class _People(NamedTuple):
    """Where a run of people stand: what the kernels carry from variant to variant."""

    member: NDArray[np.int32]
    segment_end: NDArray[np.int32]
    next_missing: NDArray[np.int32]
    stream: NDArray[np.uint64]
    missing_stream: NDArray[np.uint64]


def packed_genotypes(
    mosaic: Mosaic, n_people: int, *, slab_bytes: int = SLAB_BYTES
) -> Iterator[NDArray[np.uint8]]:
    """Generate the body of a variant-major .bed file.

    Parameters
    ----------
    mosaic
        The population.
    n_people
        How many people to draw: persons 0 to ``n_people - 1`` of the seed.
    slab_bytes
        Size of one slab; changes nothing but memory and speed.

    Yields
    ------
    NDArray[np.uint8]
        (variants of the slab, ceil(n_people / 4)), four genotypes a byte, padding bits zero. The
        array is reused for the next slab.
    """
    row_bytes = -(-n_people // 4)
    slab = np.empty((max(1, slab_bytes // row_bytes), row_bytes), np.uint8)
    runs = [
        (start // 4, _people(mosaic, start, min(start + _PEOPLE_PER_TASK, n_people)))
        for start in range(0, n_people, _PEOPLE_PER_TASK)
    ]
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for first in range(0, mosaic.n_variants, slab.shape[0]):
            part = slab[: mosaic.n_variants - first]

            def fill(
                run: tuple[int, _People], first: int = first, part: NDArray[np.uint8] = part
            ) -> None:
                offset, people = run
                width = -(-people.member.size // 4)
                _fill(
                    mosaic.codes,
                    mosaic.rows[first : first + len(part)],
                    mosaic.chromosome_starts[first : first + len(part)],
                    (
                        first,
                        _switch_scale(mosaic.mean_segment),
                        _missing_scale(mosaic.missing_rate),
                    ),
                    people,
                    part[:, offset : offset + width],
                )

            list(threads.map(fill, runs))
            yield part


def genetic_values(mosaic: Mosaic, people: range, scores: SparseScores) -> NDArray[np.float64]:
    """Add up `scores` over the true genotypes (before `missing_rate`) of some people.

    Returns
    -------
    NDArray[np.float64]
        (people, largest score index + 1).
    """
    values = np.zeros((len(people), int(scores.score.max(initial=-1)) + 1))
    starts = np.append(np.flatnonzero(mosaic.chromosome_starts), mosaic.n_variants)
    streams = _streams(mosaic.seed, people.start, people.stop)
    scale = _switch_scale(mosaic.mean_segment)
    _add_scores(mosaic.codes, mosaic.rows, starts, scale, streams, scores, values)
    return values


def _switch_scale(mean_segment: float) -> float:
    return 0.0 if mean_segment == 1 else 1 / math.log1p(-1 / mean_segment)


def _missing_scale(rate: float) -> float:
    return 1 / math.log1p(-rate) if rate > 0 else -math.inf


def _streams(seed: int, start: int, stop: int) -> NDArray[np.uint64]:
    return _start_streams(np.uint64(seed), start, np.empty(stop - start, np.uint64))


def _people(mosaic: Mosaic, start: int, stop: int) -> _People:
    count = stop - start
    streams = _streams(mosaic.seed, start, stop)
    missing_streams = streams ^ _MISSING_STREAM
    return _People(
        member=np.zeros(count, np.int32),
        segment_end=np.zeros(count, np.int32),
        next_missing=_first_missing(missing_streams, _missing_scale(mosaic.missing_rate)),
        stream=streams,
        missing_stream=missing_streams,
    )


@njit(cache=True, nogil=True, inline="always")
def _mixed(state):  # type: ignore[no-untyped-def]
    state = (state ^ (state >> np.uint64(30))) * _MIX_1
    state = (state ^ (state >> np.uint64(27))) * _MIX_2
    return state ^ (state >> np.uint64(31))


@njit(cache=True, nogil=True)
def _start_streams(seed, first, out):  # type: ignore[no-untyped-def]
    key = _mixed(seed + _WEYL)
    for i in range(out.size):
        out[i] = _mixed(key ^ _mixed(np.uint64(first + i) + _WEYL))
    return out


@njit(cache=True, nogil=True, inline="always")
def _run_length(bits, scale):  # type: ignore[no-untyped-def]
    """Turn 64 random bits into a geometric length of at least 1 (scale = 1 / log(1 - p))."""
    uniform = (np.float64(bits >> np.uint64(11)) + 0.5) * 2.0**-53
    return np.int64(min(math.log(uniform) * scale, 1e9)) + 1


@njit(cache=True, nogil=True, inline="always")
def _new_segment(stream, n_members, scale):  # type: ignore[no-untyped-def]
    """Draw a panel member and a length; return them with the advanced stream."""
    stream = stream + _WEYL
    member = ((_mixed(stream) >> np.uint64(32)) * np.uint64(n_members)) >> np.uint64(32)
    stream = stream + _WEYL
    return np.int32(member), _run_length(_mixed(stream), scale), stream


@njit(cache=True, nogil=True)
def _first_missing(streams, scale):  # type: ignore[no-untyped-def]
    out = np.full(streams.size, _NEVER, np.int32)
    if scale > -math.inf:
        for i in range(streams.size):
            streams[i] += _WEYL
            out[i] = _run_length(_mixed(streams[i]), scale) - 1
    return out


@njit(cache=True, nogil=True)
def _fill(codes, rows, starts, position_and_scales, people, out):  # type: ignore[no-untyped-def]
    """Write the packed codes of one run of people for consecutive variants."""
    first, switch_scale, missing_scale = position_and_scales
    n_people, n_members = people.member.size, codes.shape[1]
    for v in range(rows.size):
        position, row = first + v, codes[rows[v]]
        for byte in range(out.shape[1]):
            packed = np.uint8(0)
            for k in range(min(4, n_people - 4 * byte)):
                i = 4 * byte + k
                if people.segment_end[i] == position or starts[v]:
                    member, length, stream = _new_segment(people.stream[i], n_members, switch_scale)
                    people.member[i], people.stream[i] = member, stream
                    people.segment_end[i] = position + length
                code = row[people.member[i]]
                if people.next_missing[i] == position:
                    code = np.uint8(_MISSING_CODE)
                    people.missing_stream[i] += _WEYL
                    gap = _run_length(_mixed(people.missing_stream[i]), missing_scale)
                    people.next_missing[i] = position + gap
                packed |= np.uint8(code << np.uint8(2 * k))
            out[v, byte] = packed


@njit(cache=True, nogil=True)
def _add_scores(codes, rows, starts, scale, streams, scores, values):  # type: ignore[no-untyped-def]
    """Walk each person's segments, drawn exactly as `_fill` draws them."""
    n_members, n_entries = codes.shape[1], scores.variant.size
    for i in range(streams.size):
        stream, entry = streams[i], 0
        for c in range(starts.size - 1):
            position = starts[c]
            while position < starts[c + 1]:
                member, length, stream = _new_segment(stream, n_members, scale)
                position = min(position + length, starts[c + 1])
                while entry < n_entries and scores.variant[entry] < position:
                    code = codes[rows[scores.variant[entry]], member]
                    values[i, scores.score[entry]] += scores.value[entry, code]
                    entry += 1
