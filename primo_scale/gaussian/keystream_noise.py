"""Gaussian noise on a fine lattice from an AES-256-CTR keystream, reproducible from its key.

If the keystream is uniform, each draw is exact up to a total variation distance of 4e-119
(docs/maths/sampler.md). The guarantee therefore assumes that AES-256 is a pseudorandom function.
One core draws about 15 million values per second.

The sampler rejects some candidates, so the time of a draw depends weakly on its value.
"""

from __future__ import annotations

import struct
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from primo_scale.errors import UsageError
from primo_scale.gaussian.lattice_noise import Integers
from primo_scale.gaussian.normal_attempts import (
    ACCEPTED,
    EXTENSION_BYTES,
    LARGEST_SCALE,
    SMALLEST_SCALE,
    UNDECIDED,
    WORDS_PER_ATTEMPT,
    Scale,
    decide,
    decide_from_prefixes,
)
from primo_scale.machine import usable_cpus

KEY_BYTES = 32
_DOMAIN = b"primo-scale Gaussian noise, 1"
_BLOCK_BYTES = 16
# Draws per chunk. Each chunk has its own key, because the advantage of distinguishing AES blocks,
# which are distinct, from random ones grows with the square of their number under one key. A chunk
# is also the unit of work of a thread, and it fits in a core's cache.
_CHUNK_DRAWS = 1 << 14
# Fewer draws use no threads: the pieces of small LD blocks are drawn side by side already.
_THREADED_DRAWS = 1 << 19
# Share and number of spare attempts: 0.62% are rejected, plus eight standard deviations.
_SPARE_SHARE, _SPARE_ATTEMPTS = 128, 64
# Extensions use the upper half of a chunk's counters: 9 blocks each, 16 blocks apart.
_EXTENSIONS_FROM, _EXTENSION_STRIDE = 1 << 127, 16


class KeystreamNoise:
    """Source of the noise of one release.

    The same key, label, count and scale give the same draws on any machine and any number of cores.
    If any of them differs, the draws are independent.

    The key is a uniform secret of 32 bytes from `os.urandom`, used for one release only. A key of
    another length raises a UsageError.
    """

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise UsageError("a noise key has a fixed length", value=len(key), limit=KEY_BYTES)
        self._key = key
        self._drawn: set[str] = set()

    def draw(self, label: str, count: int, scale: float) -> Integers:
        """Draw ``scale * N(0, 1)`` rounded to the nearest integer, independently; shape (count,).

        Many draws are computed on every core that this process may use. The label names the
        statistic, block and part that the noise is for. The scale, from 2^32 to 2^58 lattice steps,
        is used exactly as given. A label that was used before, and a scale out of range, raise a
        UsageError.
        """
        if not SMALLEST_SCALE <= scale <= LARGEST_SCALE:
            raise UsageError(
                "the noise scale cannot be sampled exactly",
                value=scale,
                limit=f"{SMALLEST_SCALE:g} to {LARGEST_SCALE:g} lattice steps",
            )
        if label in self._drawn:
            raise UsageError(
                "noise was already drawn for this label, and equal noise would cancel out",
                value=label,
                remedy="Give every statistic and block its own label",
            )
        self._drawn.add(label)
        noise = np.empty(count, dtype=np.int64)

        def fill(chunk: int) -> None:
            part = noise[chunk * _CHUNK_DRAWS : (chunk + 1) * _CHUNK_DRAWS]
            request = struct.pack("<QQd", chunk, count, scale) + label.encode()
            key = HKDFExpand(SHA256(), KEY_BYTES, _DOMAIN + request).derive(self._key)
            _fill_chunk(key, Scale.of(scale), part)

        chunks = range(-(-count // _CHUNK_DRAWS))
        if count < _THREADED_DRAWS:
            list(map(fill, chunks))
        else:
            with ThreadPoolExecutor(usable_cpus()) as threads:
                list(threads.map(fill, chunks))
        return noise


def keystream(key: bytes, first_block: int, size: int) -> bytes:
    """Return `size` bytes of AES-CTR keystream from a value of the 128-bit block counter on."""
    counter = CTR(first_block.to_bytes(_BLOCK_BYTES, "big"))
    return Cipher(AES(key), counter).encryptor().update(bytes(size))


def _fill_chunk(key: bytes, scale: Scale, noise: Integers) -> None:
    """Fill `noise` with the accepted attempts of the stream under `key`, in order."""
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
    """Return the accepted values of attempts `start` (even) to ``start + count`` of a stream."""
    attempt_bytes = 8 * WORDS_PER_ATTEMPT
    stream = keystream(key, start * attempt_bytes // _BLOCK_BYTES, count * attempt_bytes)
    words = np.frombuffer(stream, dtype="<u8").reshape(count, WORDS_PER_ATTEMPT)
    values, verdicts = decide_from_prefixes(words, scale)
    accepted = verdicts == ACCEPTED
    for i in np.flatnonzero(verdicts == UNDECIDED):
        block = _EXTENSIONS_FROM + _EXTENSION_STRIDE * (start + int(i))
        extension = keystream(key, block, WORDS_PER_ATTEMPT * EXTENSION_BYTES)
        value = decide((int(words[i, 0]), int(words[i, 1]), int(words[i, 2])), extension, scale)
        if value is not None:
            values[i], accepted[i] = value, True
    drawn: Integers = values[accepted]
    return drawn
