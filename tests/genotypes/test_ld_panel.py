"""Public LD panels, matched to a cohort, and the components of their linkage disequilibrium."""

from dataclasses import replace

import numpy as np
import pytest
from support.filesets import variants_with, write_fileset_of

from primo_scale.errors import InputError
from primo_scale.genotypes.coding import GenotypeCoding
from primo_scale.panel.components import (
    component_map,
    components,
    open_components,
    variances_outside,
    write_components,
)
from primo_scale.panel.ld import fixation_index, open_ld_panel


def write_panel(prefix, dosages):
    return write_fileset_of(prefix, dosages, range(1, len(dosages) + 1))


def opened_panel(folder, dosages, variants):
    return open_ld_panel((write_panel(folder / "panel", dosages),), variants)


def table(alleles, positions, chromosome="1"):
    first, second = zip(*alleles, strict=True)
    return variants_with(
        len(first), chromosome=chromosome, position=positions, allele1=first, allele2=second
    )


def even_coding(count):
    return GenotypeCoding(
        multiplier=np.full(count, 16, np.int16),
        centre=np.full(count, 16, np.int16),
        unit=16,
        variances=np.full(count, 16**2 / 2),
        source="test",
    )


@pytest.fixture
def dosages():
    return np.random.default_rng(0).integers(0, 3, (6, 61))


def test_variants_match_by_position_and_alleles_in_either_order_and_strand(tmp_path, dosages):
    wanted = [("A", "G"), ("G", "A"), ("T", "C"), ("C", "T"), ("A", "C"), ("A", "G")]
    panel = opened_panel(tmp_path, dosages, table(wanted, [1, 2, 3, 4, 5, 77], chromosome="chr1"))
    assert panel.rows.tolist() == [0, 1, 2, 3, -1, -1]
    assert panel.swapped.tolist()[:4] == [False, True, False, True]
    here, found = panel.centred_dosages(slice(0, 6))
    assert here.tolist() == [0, 1, 2, 3]
    expected = dosages[:4].astype(float)
    expected[[1, 3]] = 2 - expected[[1, 3]]
    expected -= expected.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_frequencies_are_those_of_the_cohorts_alleles(tmp_path, dosages):
    dosages[2, :5] = -1
    wanted = [("A", "G"), ("G", "A"), ("A", "G"), ("A", "C")]
    found = opened_panel(tmp_path, dosages, table(wanted, [2, 1, 3, 4])).a1_frequencies()
    expected = [dosages[1].mean() / 2, 1 - dosages[0].mean() / 2, dosages[2, 5:].mean() / 2]
    np.testing.assert_allclose(found[:3], expected, rtol=1e-12)
    assert np.isnan(found[3])


@pytest.mark.parametrize("divergence", [0.0, 0.05, 0.2])
def test_fixation_index_is_that_of_diverged_populations(divergence):
    """Balding and Nichols: beta-distributed frequencies around those of the ancestors."""
    generator, d, people = np.random.default_rng(1), 40_000, 60
    ancestors = generator.uniform(0.1, 0.9, d)
    if divergence:
        size = (1 - divergence) / divergence
        one, two = generator.beta(size * ancestors, size * (1 - ancestors), (2, d))
    else:
        one = two = ancestors
    of_panel = generator.binomial(2 * people, one) / (2 * people)
    of_panel[::7] = np.nan
    # Hudson's F_ST of two populations that each diverged by so much.
    assert fixation_index(of_panel, people, two) == pytest.approx(divergence, abs=0.004)


def test_unsuitable_panels_are_refused(tmp_path, dosages):
    with pytest.raises(InputError, match="too few people"):
        opened_panel(tmp_path, dosages[:, :49], table([("A", "G")], [1]))
    with pytest.raises(InputError, match="has 1 of 20 variants"):
        opened_panel(tmp_path, dosages, table([("A", "G")] * 20, [1, *range(100, 119)]))


def correlated(n, v, rng, factors=3):
    """Dosages of a few common factors, and their population covariance by a huge sample."""
    loadings = rng.normal(0, 1, (v, factors))

    def draw(people):
        liability = loadings @ rng.normal(0, 1, (factors, people)) + rng.normal(0, 1, (v, people))
        return (liability > 0).astype(int) + (liability > 1)

    return draw(n), np.cov(draw(100_000))


@pytest.mark.parametrize("v", [30, 200])
def test_each_fold_is_projected_on_the_eigenvectors_of_the_other_four(tmp_path, v):
    dosages = np.random.default_rng(v).binomial(2, 0.4, (v, 100))
    panel = opened_panel(tmp_path, dosages, table([("A", "G")] * v, range(1, v + 1)))
    (found,) = variances_outside(panel, even_coding(v), (0, v))
    codes = 16 * (dosages - dosages.mean(axis=1, keepdims=True))
    count = min(v, 79)
    squares = np.zeros(count)
    for fold in range(5):
        here = np.arange(100) % 5 == fold
        mean = codes[:, ~here].mean(axis=1, keepdims=True)
        vectors = np.linalg.svd(codes[:, ~here] - mean, full_matrices=False)[0][:, :count]
        squares += ((vectors.T @ (codes[:, here] - mean)) ** 2).sum(axis=1)
    np.testing.assert_allclose(found[:count], squares / 100, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("people", [60, 400])
def test_variances_are_those_of_other_people(tmp_path, people):
    """In the panel itself, the leading variances are larger than in its population."""
    rng = np.random.default_rng(people)
    dosages, population = correlated(people, 80, rng)
    panel = opened_panel(tmp_path, dosages, table([("A", "G")] * 80, range(1, 81)))
    coding, bounds = even_coding(80), (0, 80)
    (vectors,) = components(panel, coding, bounds, [np.arange(80)])
    (variances,) = variances_outside(panel, coding, bounds)
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(80), atol=1e-8)
    true = 256 * np.einsum("ij,jk,ik->i", vectors, population, vectors)
    centred = dosages - dosages.mean(axis=1, keepdims=True)
    inside = 256 * ((vectors @ centred) ** 2).mean(axis=1)
    assert abs(variances[:30].sum() / true[:30].sum() - 1) < 0.1
    assert inside[:30].sum() / true[:30].sum() > 1.03
    assert variances.sum() / true.sum() == pytest.approx(1, abs=0.1)
    if people < 80:  # directions that people do not define share what is left
        assert variances[47:].tolist() == [variances[47]] * 33
        assert variances[47:].sum() / true[47:].sum() == pytest.approx(1, abs=0.1)


def test_maps_are_stored_and_reproduce_the_components(tmp_path):
    rng = np.random.default_rng(5)
    vectors = np.linalg.qr(rng.standard_normal((40, 40)))[0][:7]
    scales = rng.uniform(0.05, 3, 7)
    maps = [component_map(vectors, scales), component_map(vectors[:2, :9], scales[:2])]
    real = maps[0].real
    assert np.abs(real - scales[:, None] * vectors).max() < scales.max() / 127
    store = write_components(tmp_path / "components.zarr", "request", maps)
    again = open_components(store.path)
    assert (again.sizes, again.boundaries) == ((7, 2), (0, 40, 49))
    for block, expected in enumerate(maps):
        np.testing.assert_array_equal(again.map_of(block).real, expected.real)


def test_variants_without_variance_in_the_panel_are_components_of_their_own(tmp_path, dosages):
    """Three are constant in the panel, and one is not in it."""
    dosages[[0, 2, 3]] = 1
    panel = opened_panel(tmp_path, dosages, table([("A", "G")] * 6, [1, 2, 3, 4, 99, 6]))
    coding = replace(even_coding(6), variances=np.arange(1.0, 7.0))
    (vectors,) = components(panel, coding, (0, 6), [np.arange(6)])
    (variances,) = variances_outside(panel, coding, (0, 6))
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(6), atol=1e-8)
    np.testing.assert_array_equal(vectors[2:], np.eye(6)[[0, 2, 3, 4]])
    assert variances[2:].tolist() == [1.0, 3.0, 4.0, 5.0]


def test_a_panel_of_several_filesets_is_their_union(tmp_path, dosages):
    places = {"1": range(1, 4), "2": range(1, 4)}
    parts = np.split(dosages, 2)
    prefixes = tuple(
        write_fileset_of(tmp_path / f"chr{name}", part, place, name)
        for (name, place), part in zip(places.items(), parts, strict=True)
    )
    wanted = [("A", "G")] * 4
    chromosome = np.array(["2", "1", "2", "3"], dtype=object)
    panel = open_ld_panel(prefixes, table(wanted, [1, 2, 3, 1], chromosome=chromosome))
    assert panel.rows.tolist() == [3, 1, 5, -1]
    assert (panel.name, panel.n_people) == ("chr1, chr2", 61)
    here, found = panel.centred_dosages(slice(0, 4))
    expected = dosages[[3, 1, 5]] - dosages[[3, 1, 5]].mean(axis=1, keepdims=True)
    assert here.tolist() == [0, 1, 2]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    others = open_ld_panel(prefixes[:1], table(wanted[:1], [2]))
    assert others.sha256 != panel.sha256
