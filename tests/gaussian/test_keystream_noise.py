"""The keystream sampler: tables and decisions against mpmath, keystreams against RFC 5869, AES."""

import functools
import hashlib
import hmac
import itertools
import math
import struct

import mpmath
import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB
from hypothesis import given, settings
from hypothesis import strategies as st
from support.noise_checks import KEY, correlated

from primo_scale.errors import UsageError
from primo_scale.gaussian import noise as noise_module
from primo_scale.gaussian.noise import (
    ACCEPTED,
    REJECTED,
    UNDECIDED,
    KeystreamNoise,
    bin_table,
    decide,
    decide_from_prefixes,
    exact_scale,
    keep_threshold,
    keystream,
)

SCALE = 2.0**32 * 1.2345
BINS, TAIL = 64, 24
BITS = 448
SCALES = [2.0**32, SCALE, 2.0**33, 3e12, 2.0**57 * 1.3, math.nextafter(2.0**58, 0), 2.0**58]
mp = mpmath.mp.clone()
mp.dps = 160


def test_tables_have_the_sizes_that_the_proof_takes():
    assert (noise_module.N_BINS, noise_module.TAIL_SIGMAS) == (TAIL * BINS, TAIL)
    assert (noise_module.OFFSET_BITS, noise_module.BIN_BITS) == (BITS, BITS - 1)
    assert mp.erfc(TAIL / mp.sqrt(2)) + mp.mpf(2) ** -394 < mp.mpf("4e-119")


def test_bin_probabilities_are_those_of_the_density_at_the_inner_edges():
    densities = [mp.exp(-((mp.mpf(j) / BINS) ** 2) / 2) for j in range(TAIL * BINS)]
    total = mp.fsum(densities)
    below = mp.mpf(0)
    thresholds = bin_table()[0]
    for j, density in enumerate(densities):
        assert (
            -mp.mpf("1e-9") < below / total * 2 ** (BITS - 1) - thresholds[j] < 1 + mp.mpf("1e-9")
        )
        below += density
    assert thresholds[-1] == 2 ** (BITS - 1)
    assert len(thresholds) == len(densities) + 1


@settings(deadline=None)
@given(st.integers(0, TAIL * BINS - 1), st.integers(0, 2**BITS - 1), st.integers(0, BITS))
def test_probability_of_keeping_a_place(bin_, offset, smaller):
    offset >>= smaller
    edge, place = mp.mpf(bin_) / BINS, (bin_ + mp.mpf(offset) / 2**BITS) / BINS
    rejected = -mp.expm1((edge**2 - place**2) / 2) * 2**BITS
    assert -mp.mpf("1e-9") < keep_threshold(bin_, offset) - rejected < 1 + mp.mpf("1e-9")


@given(st.floats(2.0**32, 2.0**58))
def test_scale_is_taken_apart_exactly(value):
    multiplier, shift = exact_scale(value)
    assert multiplier * 2.0 ** (6 - shift) == value
    assert 2**52 < multiplier <= 2**53
    assert 1 <= shift <= 27


def exact_outcome(words, extension, sigma):
    """Evaluate one attempt in real numbers, independently of the product."""
    tails = [int.from_bytes(extension[48 * i : 48 * i + 48], "little") for i in range(3)]
    u = mp.mpf(((words[0] >> 1) << 384) + tails[0]) / 2**447
    t = mp.mpf((words[1] << 384) + tails[1]) / 2**448
    v = mp.mpf((words[2] << 384) + tails[2]) / 2**448
    cumulated = cumulated_densities()
    j = int(np.searchsorted(cumulated, u * cumulated[-1], side="right")) - 1
    z = (j + t) / BINS
    if v < 1 - mp.exp(((mp.mpf(j) / BINS) ** 2 - z**2) / 2):
        return None
    rounded = int(mp.floor(mp.mpf(sigma) * z + mp.mpf(1) / 2))
    return -rounded if words[0] & 1 else rounded


@functools.cache
def cumulated_densities():
    densities = (mp.exp(-(mp.mpf(j) ** 2) / (2 * BINS**2)) for j in range(TAIL * BINS))
    return np.array(list(itertools.accumulate(densities, initial=mp.mpf(0))), dtype=object)


word = st.integers(0, 2**64 - 1)


@settings(deadline=None)
@given(st.tuples(word, word, word), st.binary(min_size=144, max_size=144), st.sampled_from(SCALES))
def test_big_integers_decide_as_real_numbers_do(words, extension, sigma):
    assert decide(words, extension, exact_scale(sigma)) == exact_outcome(words, extension, sigma)


def run_kernel(words, sigma):
    words = np.array(words, dtype=np.uint64).reshape(-1, 3)
    return decide_from_prefixes(words, exact_scale(sigma))


def disagreements(words, sigma):
    values, verdicts = run_kernel(words, sigma)
    scale = exact_scale(sigma)
    found = []
    for row, value, verdict in zip(words, values, verdicts, strict=True):
        if verdict == UNDECIDED:
            continue
        claimed = int(value) if verdict == ACCEPTED else None
        for extension in (bytes(144), b"\xff" * 144):
            if decide(tuple(row), extension, scale) != claimed:
                found.append((tuple(row), sigma))
    return found


def random_words(count, seed):
    generator = np.random.default_rng(seed)
    return generator.integers(0, 2**64, (count, 3), dtype=np.uint64).tolist()


def words_at_edges(seed):
    """Return attempts within a few units of the thresholds of every decision."""
    generator = np.random.default_rng(seed)
    prefixes = [int(p) for p in bin_table()[1]]
    words = []
    for j in generator.integers(0, 500, 300).tolist():
        step = int(generator.integers(-1, 2))
        first = min(max(2 * (prefixes[j] + step), 0), 2**64 - 1) | int(generator.integers(0, 2))
        second = int(generator.integers(0, 2**64, dtype=np.uint64))
        second >>= int(generator.choice([0, 0, 0, 16, 40, 60]))
        turn = keep_threshold(j, second << 384) >> 384
        for width in (0, 1, 2**20, 2**44, 2**50):
            words.append([first, second, min(max(turn + width * int(step or 1), 0), 2**64 - 1)])
    # Products with the scale that leave a fraction just below or at one half or one.
    for j in (0, 1, 63, 400):
        for second in (0, 1, 2, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 2**11, 2**64 - 2, 2**64 - 1):
            words.append([2 * prefixes[j] + 2, second, 2**64 - 1])
    return words


@pytest.mark.parametrize("sigma", SCALES)
def test_kernel_never_contradicts_big_integers(sigma):
    assert not disagreements(random_words(1_500, seed=1), sigma)
    assert not disagreements(words_at_edges(seed=2), sigma)


def test_edges_are_reached_and_would_show_a_kernel_that_guesses(monkeypatch):
    """Every verdict occurs among the words, and a kernel that never returns UNDECIDED fails."""
    words = words_at_edges(seed=2)
    values, verdicts = run_kernel(words, SCALE)
    assert set(verdicts.tolist()) == {REJECTED, ACCEPTED, UNDECIDED}
    assert (verdicts == UNDECIDED).sum() > 100

    def guessing(*_):
        return values, np.where(verdicts == UNDECIDED, ACCEPTED, verdicts)

    monkeypatch.setitem(run_kernel.__globals__, "decide_from_prefixes", guessing)
    assert len(disagreements(words, SCALE)) > 50


def test_carries_into_the_upper_half_are_left_undecided():
    """At 2^58 / 2 the fraction of the product decides often: one attempt in 2^12 at least."""
    words = random_words(200_000, seed=3)
    _, verdicts = run_kernel(words, 2.0**57 * 1.9)
    assert 2**-12.5 < (verdicts == UNDECIDED).mean() < 2**-9
    undecided = [row for row, verdict in zip(words, verdicts, strict=True) if verdict == UNDECIDED]
    outcomes = [
        {decide(tuple(row), tail * 144, exact_scale(2.0**57 * 1.9)) for tail in (b"\0", b"\xff")}
        for row in undecided
    ]
    assert sum(len(outcome) == 2 for outcome in outcomes) > 10


def test_attempts_beyond_64_bits_are_drawn_by_the_further_bits():
    """The last prefixes coincide; only the extension tells bins beyond 9 sigma apart."""
    words = (2**64 - 1, 2**63, 2**64 - 1)
    _, verdicts = run_kernel([words], SCALE)
    assert verdicts[0] == UNDECIDED
    far = {decide(words, bytes([b]) * 144, exact_scale(SCALE)) for b in (0, 128, 255)}
    assert len(far) == 3
    assert all(-TAIL * SCALE <= value < -9 * SCALE for value in far)


def test_keystream_is_that_of_nist_sp_800_38a():
    """CTR-AES256.Encrypt, F.5.5."""
    key = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
    counter = int("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff", 16)
    plain = bytes.fromhex(
        "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
        "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
    )
    cipher = bytes.fromhex(
        "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5"
        "2b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6"
    )
    stream = keystream(key, counter, 64)
    assert bytes(a ^ b for a, b in zip(stream, plain, strict=True)) == cipher
    assert keystream(key, counter + 2, 32) == stream[32:]


def reference_attempts(key, label, count, sigma):
    """Words and further bits of a stream's first chunk, from RFC 5869 and single AES blocks."""
    info = b"primo-scale Gaussian noise, 1" + struct.pack("<QQd", 0, count, sigma) + label.encode()
    chunk_key = hmac.new(key, info + b"\x01", hashlib.sha256).digest()
    aes = Cipher(AES(chunk_key), ECB()).encryptor()

    def blocks(first, n_blocks):
        return b"".join(aes.update((first + b).to_bytes(16, "big")) for b in range(n_blocks))

    for attempt in itertools.count():
        start = attempt * 24 // 16
        stream = blocks(start, 3)[attempt * 24 - start * 16 :][:24]
        yield struct.unpack("<3Q", stream), blocks(2**127 + 16 * attempt, 9)


def first_results(outcomes, count):
    return list(itertools.islice((o for o in outcomes if o is not None), count))


@pytest.mark.parametrize(("count", "sigma"), [(1, 2.0**58), (400, SCALE), (400, 2.0**57 * 1.7)])
def test_stream_is_that_of_a_second_implementation(count, sigma):
    found = KeystreamNoise(KEY).draw("X'X, block 7", count, sigma)
    assert found.dtype == np.int64
    attempts = reference_attempts(KEY, "X'X, block 7", count, sigma)
    assert found.tolist() == first_results((exact_outcome(*a, sigma) for a in attempts), count)


def decides_nothing(words, *_):
    return np.zeros(len(words), np.int64), np.full(len(words), UNDECIDED, np.uint8)


def test_every_attempt_has_its_own_further_bits(monkeypatch):
    """Further bits hardly ever matter in real draws, so a fake `decide` returns the last ones."""

    def last_bits(words, extension, *_):
        return None if words[0] & 1 else int.from_bytes(extension[-7:], "little")

    monkeypatch.setattr(noise_module, "decide_from_prefixes", decides_nothing)
    monkeypatch.setattr(noise_module, "decide", last_bits)
    attempts = reference_attempts(KEY, "a", 300, SCALE)
    expected = first_results((last_bits(*a) for a in attempts), 300)
    assert KeystreamNoise(KEY).draw("a", 300, SCALE).tolist() == expected


@pytest.mark.parametrize(
    ("count", "changes"),
    [
        (3_000, {"decide_from_prefixes": decides_nothing}),
        (20_000, {"_SPARE_SHARE": 10**9, "_SPARE_ATTEMPTS": 1}),
        (100_000, {"usable_cpus": lambda: 7}),
    ],
    ids=["slow path", "attempts at a time", "cores"],
)
def test_the_noise_does_not_depend_on_how_it_is_computed(monkeypatch, count, changes):
    expected = KeystreamNoise(KEY).draw("a", count, SCALE)
    for name, value in changes.items():
        monkeypatch.setattr(noise_module, name, value)
    assert np.array_equal(KeystreamNoise(KEY).draw("a", count, SCALE), expected)


@pytest.mark.parametrize(
    ("key", "label", "count", "sigma"),
    [
        (bytes(32), "a", 50_000, SCALE),
        (KEY, "b", 50_000, SCALE),
        (KEY, "a", 50_001, SCALE),
        (KEY, "a", 50_000, math.nextafter(SCALE, 0)),
    ],
)
def test_another_key_label_count_or_scale_is_another_noise(key, label, count, sigma):
    first = KeystreamNoise(KEY).draw("a", 50_000, SCALE)
    assert not correlated(first, KeystreamNoise(key).draw(label, count, sigma)[:50_000])
    assert correlated(first, KeystreamNoise(KEY).draw("a", 50_000, SCALE))  # a repeated key


def test_parts_of_a_draw_are_independent():
    """Each chunk has a key of its own."""
    size = noise_module._CHUNK_DRAWS
    chunks = KeystreamNoise(KEY).draw("a", 3 * size, SCALE).reshape(3, size)
    for first, second in itertools.combinations(chunks, 2):
        assert not correlated(first, second)


def test_a_label_is_given_once():
    noise = KeystreamNoise(KEY)
    noise.draw("X'X, block 1", 2, SCALE)
    noise.draw("X'X, block 2", 2, SCALE)
    with pytest.raises(UsageError, match="X'X, block 1"):
        noise.draw("X'X, block 1", 3, SCALE)


@pytest.mark.parametrize("size", [0, 16, 31, 33])
def test_key_of_another_length_is_refused(size):
    with pytest.raises(UsageError, match="key"):
        KeystreamNoise(bytes(size))


@pytest.mark.parametrize("scale", [0.0, 2.0**31, 2.0**58 * 1.01, math.inf, math.nan, -(2.0**40)])
def test_scale_out_of_range_is_refused(scale):
    with pytest.raises(UsageError, match="cannot be sampled"):
        KeystreamNoise(KEY).draw("a", 1, scale)
