"""Columns of parties: no genotypes exceed the sensitivity, and mixtures are signed sums."""

from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from support.filesets import write_fileset_of
from support.party_examples import SEED, signs_of

import primo_scale as ps
from primo_scale.genotypes.store import DOSAGES, GenotypeStore
from primo_scale.kernels.dosage_bytes import MISSING_BYTE, STEPS
from primo_scale.outcomes.coding import BOUNDED_UNIT
from primo_scale.parties.columns import add_to_mixtures, genotype_columns
from primo_scale.parties.release import party_sensitivity
from primo_scale.verify.document import Mixtures

MISSING = -1


def hard_calls(directory: Path) -> tuple[GenotypeStore, np.ndarray]:
    """Return a store of everybody who can have two variants, and their copies of A1."""
    copies = np.array(list(product((0, 1, 2, MISSING), repeat=2)))
    prefix = write_fileset_of(directory / "people", copies.T, (1, 2))
    return ps.ingest(
        bfile=prefix, out=directory / "store", chunk_variants=1, chunk_samples=4
    ), copies


def dosages(_: Path) -> tuple[GenotypeStore, np.ndarray]:
    """Return a store of everybody who can have one variant, and their copies of A1."""
    stored = np.arange(256, dtype=np.uint8)
    store = SimpleNamespace(
        packing=DOSAGES,
        n_variants=1,
        n_samples=len(stored),
        chunk_shape=(1, 64),
        variants=SimpleNamespace(identifier=np.array(["rs1"])),
        samples=SimpleNamespace(individual=np.array([f"I{byte}" for byte in stored])),
        read_packed=lambda _, people: stored[None, people],
    )
    copies = np.where(stored == MISSING_BYTE, MISSING, stored / STEPS)
    return cast("GenotypeStore", store), copies[:, None]


@pytest.mark.parametrize("make", [hard_calls, dosages])
def test_no_replaced_genotypes_exceed_the_sensitivity(tmp_path: Path, make) -> None:
    store, copies = make(tmp_path)
    party = genotype_columns(store)
    assert [(c.lower, c.upper) for c in party.columns] == [(0, 2)] * store.n_variants
    coded = [piece() for piece in party.pieces()]
    assert len(coded) > 1
    assert [i for piece in coded for i in piece[0]] == list(store.samples.individual)
    rows = np.concatenate([piece[1] for piece in coded])
    exact = np.where(copies == MISSING, 0, (copies - 1) * BOUNDED_UNIT)
    np.testing.assert_allclose(rows, exact, rtol=0, atol=0.5)
    changes = np.linalg.norm((rows[:, None] - rows[None]).astype(float), axis=2)
    assert changes.max() == party_sensitivity(store.n_variants, None)  # held, and attained


@pytest.mark.parametrize("n_mixtures", [1, 7, 256, 257, 700])
def test_signs_do_not_depend_on_pieces_or_order(n_mixtures: int) -> None:
    signs = Mixtures(n_mixtures, SEED)
    whole = signs_of(signs, np.arange(50))
    assert whole.shape == (50, n_mixtures)
    assert set(np.unique(whole)) <= {-1, 1}
    order = np.random.default_rng(1).permutation(50)
    np.testing.assert_array_equal(signs_of(signs, order), whole[order])
    np.testing.assert_array_equal(signs_of(signs, np.arange(20, 30)), whole[20:30])


def test_signs_are_those_of_numpys_stream_from_the_start() -> None:
    stream = np.random.Philox(key=int(SEED, 16), counter=0).random_raw(4 * 30).view(np.uint8)
    expected = 2.0 * np.unpackbits(stream).reshape(30, 256) - 1
    np.testing.assert_array_equal(signs_of(Mixtures(256, SEED), np.arange(30)), expected)


@pytest.mark.parametrize("n_mixtures", [1, 9, 1024, 1500])
@pytest.mark.parametrize("largest", [1, 130, 2**20])
def test_mixtures_are_the_products_of_signs_and_values(n_mixtures: int, largest: int) -> None:
    """Values at both ends, and people in several pieces and in any order."""
    signs, rng = Mixtures(n_mixtures, SEED), np.random.default_rng(2)
    units = rng.integers(-largest, largest + 1, (60, 3))
    units[:2] = [[largest] * 3, [-largest] * 3]
    people, sums = rng.permutation(60), np.zeros((n_mixtures, 3), dtype=np.int64)
    for piece in (people[:1], people[1:1], people[1:37], people[37:]):
        add_to_mixtures(sums, signs, piece, units[piece])
    expected = signs_of(signs, np.arange(60)).T @ units
    np.testing.assert_array_equal(sums, expected)
