"""Gaussian noise on a fine lattice from an AES-256-CTR keystream: fast, and replayable by key.

The draws are exact up to a total variation of 4e-119 each if the keystream is uniform
(docs/maths/sampler.md), so what they add to a guarantee is that AES-256 is a pseudorandom function.
About fifteen million draws a second and core.

Rejection makes the time depend, weakly, on what was drawn.
"""

from __future__ import annotations

import struct
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from primo_scale.errors import UsageError
from primo_scale.gaussian.normal_attempts import (
    ACCEPTED,
    EXTENSION_BYTES,
    LARGEST_SCALE,
    SMALLEST_SCALE,
    UNDECIDED,
    WORDS_PER_ATTEMPT,
    Scale,
    bin_table,
    decide,
    decide_from_prefixes,
)
from primo_scale.machine import usable_cpus

Integers = npt.NDArray[np.int64]

KEY_BYTES = 32
_DOMAIN = b"primo-scale Gaussian noise, 1"
_BLOCK_BYTES = 16
# Each has a key of its own: what AES blocks, being distinct, give away grows with the square of
# how many share a key. It is also what threads share out, and fits a core's cache.
_CHUNK_DRAWS = 1 << 14
# 0.62% of attempts are rejected; eight standard deviations more than that.
_SPARE_SHARE, _SPARE_ATTEMPTS = 128, 64
# Extensions lie in the upper half of a chunk's counters, 16 blocks apart, of which 9 are used.
_EXTENSIONS_FROM, _EXTENSION_STRIDE = 1 << 127, 16


class KeystreamNoise:
    """The noise of one release, drawn label by label.

    The same key, label, count and scale give the same draws on any machine and any number of
    cores; if any of them differs, the draws are independent.

    Parameters
    ----------
    key
        32 uniform secret bytes, for one release only: from `os.urandom`, or derived from a longer
        lived key for one charge and one digest of the statistics.

    Raises
    ------
    UsageError
        The key is not 32 bytes.
    """

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise UsageError("a noise key has a fixed length", value=len(key), limit=KEY_BYTES)
        self._key = key
        self._drawn: set[str] = set()

    def draw(self, label: str, count: int, scale: float) -> Integers:
        """Draw ``scale * N(0, 1)`` rounded to the nearest integer, independently.

        Parameters
        ----------
        label
            What the noise is for: the statistic, the block and the part. Once only.
        count
            Number of draws.
        scale
            Standard deviation, 2^32 to 2^58; used exactly as given.

        Returns
        -------
        ndarray of int64, shape (count,)
            Drawn on every core this process may use.

        Raises
        ------
        UsageError
            The label was used before, or the scale is out of range.
        """
        if not SMALLEST_SCALE <= scale <= LARGEST_SCALE:
            raise UsageError(
                "the noise scale cannot be sampled exactly",
                value=scale,
                limit=f"{SMALLEST_SCALE:g} to {LARGEST_SCALE:g} lattice steps",
            )
        if label in self._drawn:
            raise UsageError(
                "noise was already drawn for this label; the same again would cancel out",
                value=label,
                remedy="Give every statistic and block a label of its own",
            )
        self._drawn.add(label)
        noise = np.empty(count, dtype=np.int64)

        def fill(chunk: int) -> None:
            part = noise[chunk * _CHUNK_DRAWS : (chunk + 1) * _CHUNK_DRAWS]
            request = struct.pack("<QQd", chunk, count, scale) + label.encode()
            key = HKDFExpand(SHA256(), KEY_BYTES, _DOMAIN + request).derive(self._key)
            _fill_chunk(key, Scale.of(scale), part)

        with ThreadPoolExecutor(usable_cpus()) as threads:
            list(threads.map(fill, range(-(-count // _CHUNK_DRAWS))))
        return noise


def keystream(key: bytes, first_block: int, size: int) -> bytes:
    """AES-CTR keystream from a given value of the 128-bit big-endian block counter on."""
    counter = CTR(first_block.to_bytes(_BLOCK_BYTES, "big"))
    return Cipher(AES(key), counter).encryptor().update(bytes(size))


def _fill_chunk(key: bytes, scale: Scale, noise: Integers) -> None:
    """Fill with the accepted attempts, in order, of the stream under `key`."""
    n_done = n_attempts = 0
    while n_done < len(noise):
        missing = len(noise) - n_done
        batch = missing + missing // _SPARE_SHARE + _SPARE_ATTEMPTS
        batch += batch % 2  # two attempts are three blocks
        drawn = _accepted(key, scale, n_attempts, batch)[:missing]
        noise[n_done : n_done + len(drawn)] = drawn
        n_done += len(drawn)
        n_attempts += batch


def _accepted(key: bytes, scale: Scale, start: int, count: int) -> Integers:
    """What attempts `start` (even) to ``start + count`` of a stream gave, without the rejected."""
    attempt_bytes = 8 * WORDS_PER_ATTEMPT
    stream = keystream(key, start * attempt_bytes // _BLOCK_BYTES, count * attempt_bytes)
    words = np.frombuffer(stream, dtype="<u8").reshape(count, WORDS_PER_ATTEMPT)
    table = bin_table()
    multiplier, shift = np.uint64(scale.multiplier), np.uint64(scale.shift)
    values, verdicts = decide_from_prefixes(words, table.prefixes, table.guide, multiplier, shift)
    accepted = verdicts == ACCEPTED
    for i in np.flatnonzero(verdicts == UNDECIDED):
        block = _EXTENSIONS_FROM + _EXTENSION_STRIDE * (start + int(i))
        extension = keystream(key, block, WORDS_PER_ATTEMPT * EXTENSION_BYTES)
        value = decide((int(words[i, 0]), int(words[i, 1]), int(words[i, 2])), extension, scale)
        if value is not None:
            values[i], accepted[i] = value, True
    drawn: Integers = values[accepted]
    return drawn
