"""The audit passes sound mechanisms and detects every planted bug.

An audit fails a sound mechanism with probability at most 1e-8. Runs are so many that the expected
bound exceeds its limit by at least six standard deviations.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from support.audited_mechanisms import ADD, DELTA, EPSILON, FULL, LABEL, mechanism
from support.opendp_noise import OpenDPNoise
from support.stores import write_matrices
from support.tiers import thinned

from primo_scale.accumulation.statistics import RawStatistics
from primo_scale.audit import mechanism_audit as auditing
from primo_scale.audit.mechanism_audit import (
    ALL,
    EXCEEDED,
    SPLIT,
    WITHIN,
    audit,
    audit_bounds,
    audit_subjects,
    pooled_noise,
    publish,
    statistics_of,
    worst_pairs,
)
from primo_scale.gaussian import sensitivity
from primo_scale.gaussian.noise import KeystreamNoise
from primo_scale.privacy.mechanism import Promise, Recipe, calibrate
from primo_scale.privacy.private_statistics import KIND, NoisyMatrices, privatise
from primo_scale.storage.block_matrices import BlockLayout, BlockMatrices

FALSE_ALARM = 1e-8


def every_mechanism():
    found = []
    for methods, audited in audit_subjects(ALL, ALL, ALL, epsilon=EPSILON, delta=DELTA):
        layout = "dense" if audited.bounds.block_norms is None else "blocks"
        promise = f"{audited.promise.unit} {audited.promise.adjacency}"
        found.append(pytest.param(audited, id=f"{promise} {layout} {methods[0]}"))
    return found


def one_of_each():
    """Return a mechanism for each unit of each recipe; adjacencies and layouts take turns."""
    groups = {}
    for each in every_mechanism():
        unit, *_, method = each.id.split()
        groups.setdefault((unit, method), []).append(each)
    return [group[turn % len(group)] for turn, group in enumerate(groups.values())]


def effort(runs, noise=None):
    return {"runs": runs, "false_alarm": FALSE_ALARM, "noise": noise}


def named(audited, name):
    return tuple(pair for pair in worst_pairs(audited) if pair.name == name)


def less_noisy(audited, factor):
    old = audited.scales
    scales = {
        field: tuple(factor * s for s in value) if field == "gram" else factor * value
        for field, value in vars(old).items()
    }
    return replace(audited, scales=replace(old, **scales))


def publishing_with(doctored):
    """Return a `publish` that draws the noise of a doctored mechanism instead of the stated one."""
    return lambda exact, _, source: publish(exact, doctored, source)


@pytest.mark.parametrize(
    ("audited", "runs"),
    [
        *(pytest.param(*each.values, 200, id=each.id) for each in every_mechanism()[::6]),
        *(pytest.param(*each.values, 2500, id=f"{each.id}, 2500 runs", marks=pytest.mark.slow)
          for each in one_of_each()),
    ],
)  # fmt: skip
def test_a_sound_mechanism_passes(audited, runs):
    """200 runs find a quarter of the noise in every mechanism, 2500 runs half of it."""
    found = audit(audited, worst_pairs(audited), **effort(runs))
    assert found.verdict == WITHIN
    assert found.epsilon <= EPSILON
    assert (found.gaussian_epsilon or 0.0) <= EPSILON


@pytest.mark.slow
def test_a_sound_mechanism_passes_with_opendp_noise():
    audited = mechanism(FULL, ADD, recipe=Recipe(1 / 3, 2))
    found = audit(audited, worst_pairs(audited)[:1], **effort(1000, pooled_noise(OpenDPNoise())))
    assert found.verdict == WITHIN


@pytest.mark.slow
def test_the_bounds_of_a_sound_mechanism_approach_its_claim():
    audited = mechanism(LABEL, ADD)
    found = audit(audited, worst_pairs(audited), **effort(20_000))
    assert found.attainable == pytest.approx(EPSILON, rel=1e-3)
    # Limits of 6 standard errors each on two rates, estimated from 10,000 runs.
    assert 0.65 * EPSILON < found.gaussian_epsilon <= EPSILON
    assert 0.3 * EPSILON < found.epsilon <= EPSILON
    assert found.verdict == WITHIN


@pytest.mark.parametrize(
    "audited",
    thinned([p for p in every_mechanism() if p.values[0].recipe == Recipe()][::3], every=2),
)
def test_half_the_noise_is_found(audited, monkeypatch):
    monkeypatch.setattr(auditing, "publish", publishing_with(less_noisy(audited, 0.5)))
    found = audit(audited, worst_pairs(audited)[:1], **effort(2500))
    assert found.gaussian_epsilon > EPSILON
    assert found.verdict == EXCEEDED


def test_too_little_noise_is_found_without_assumptions(monkeypatch):
    audited = mechanism(LABEL, ADD)
    monkeypatch.setattr(auditing, "publish", publishing_with(less_noisy(audited, 0.25)))
    found = audit(audited, worst_pairs(audited), **effort(6_000))
    assert found.epsilon > EPSILON


def test_a_missing_factor_of_two_in_the_cross_sensitivity_is_found(monkeypatch):
    sound, whole = mechanism(LABEL), sensitivity.cross
    monkeypatch.setattr(sensitivity, "cross", lambda *bounds: whole(*bounds) / 2)
    audited = mechanism(LABEL)
    assert audited.scales.phenotype_cross < 0.51 * sound.scales.phenotype_cross
    found = audit(audited, named(audited, "phenotypes, reversed"), **effort(4000))
    assert found.gaussian_epsilon > EPSILON
    # The stated noise is too small for the pair, which is visible without a draw.
    assert found.attainable > 2 * EPSILON


@pytest.mark.slow
def test_the_papers_amplification_by_subsampling_is_found():
    """Algorithm 4: ``eps_1 = (n/s) eps/2``, and noise for 1/n where sums are divided by s."""
    n, s, epsilon = 40, 4, 1.0
    promise = Promise(epsilon, 1e-4)
    audited = calibrate(audit_bounds(by_block=False), promise, Recipe(subsample=s), split=SPLIT)
    amplified = n / s * epsilon / 2
    sigma = 2 * math.sqrt(2 * math.log(2.5 / promise.delta)) / amplified / n  # of (1/s) X'X
    gram = (s * sigma * audited.bounds.row_norm,)
    printed = replace(audited, scales=replace(audited.scales, gram=gram))
    found = audit(printed, named(printed, "X'X, diagonal"), **effort(4000))
    assert found.epsilon > epsilon
    assert found.verdict == EXCEEDED
    sound = audit(audited, named(audited, "X'X, diagonal"), **effort(4000))
    assert sound.verdict == WITHIN


class OneStream:
    """Source that returns the same draws for every label."""

    def __init__(self, seed):
        self._seed = seed

    def draw(self, label, count, scale):
        normal = np.random.default_rng(self._seed).normal(size=count)
        return np.rint(scale * normal).astype(np.int64)


SEEDS = iter(range(10**6))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("runs", "noise"),
    [
        pytest.param(200, lambda: KeystreamNoise(bytes(range(32))), id="one key for every run"),
        pytest.param(2000, lambda: OneStream(next(SEEDS)), id="one stream for every part"),
    ],
)
def test_noise_that_runs_or_parts_share_is_found(runs, noise):
    audited = mechanism(epsilon=1.0)
    found = audit(audited, worst_pairs(audited)[:1], **effort(runs, noise))
    assert found.epsilon > 1.0
    assert found.gaussian_epsilon > 1.0


def test_counts_without_noise_are_found(monkeypatch):
    monkeypatch.setattr(NoisyMatrices, "counts", lambda noisy, counts: counts)
    audited = mechanism()
    found = audit(audited, named(audited, "phenotypes"), **effort(2000))
    assert found.epsilon > EPSILON


@pytest.mark.parametrize("by_block", [False, True])
def test_the_audited_release_equals_that_of_privatise(tmp_path, by_block):
    """With the same key, every number is equal."""
    recipe, key = Recipe(eigenvalue_share=0.1, gram_copies=2), bytes(range(32))
    audited = mechanism(recipe=recipe, by_block=by_block)
    pair = worst_pairs(audited)[0]
    sizes = audited.bounds.block_sizes
    exact = statistics_of(pair.others, pair.before, sizes)
    layout = BlockLayout(tuple(np.cumsum([0, *sizes]).tolist()), 0, 2)
    parts = exact.gram, exact.cross, exact.outcome_gram, exact.observed
    writer = write_matrices(tmp_path / "raw", layout, *parts)
    raw = RawStatistics(writer.finish({}), 40, "digest", {})

    store = tmp_path / "private"
    privatise(raw, audited, KeystreamNoise(key), store, lambda done, total: None)
    private = BlockMatrices(store, KIND, layout)
    expected = []
    for block in range(layout.n_blocks):
        expected += [private.gram(block, 0), private.gram(block, 1), private.cross(block)]
    expected += [private.outcome_gram(), private.observed(), [private.smallest_eigenvalue()]]
    found = publish(exact, audited, KeystreamNoise(key))
    for part, same in zip(found, expected, strict=True):
        np.testing.assert_array_equal(part, same)
