"""Genotypes of a party: every row that a person can have, against the bound of the noise."""

from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from support.filesets import write_fileset_of

import primo_scale as ps
from primo_scale.genotypes.store import DOSAGES, GenotypeStore
from primo_scale.kernels.dosage_bytes import MISSING_BYTE, STEPS
from primo_scale.outcomes.coding import BOUNDED_UNIT
from primo_scale.parties.columns import genotype_columns
from primo_scale.parties.release import party_sensitivity

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
