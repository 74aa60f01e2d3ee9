"""Partial reads of .bed files with small buffers, compared with bed-reader."""

import numpy as np
import pytest
from support.filesets import copy_fileset, open_filesets
from support.ingest_runs import bed_reader_dosages

from primo_scale.errors import InputError
from primo_scale.genotypes import bed
from primo_scale.genotypes.store import copies_of_hard_calls


@pytest.mark.parametrize("budget", [1, 64, 1 << 26])
def test_any_subset_is_read_with_any_buffer_size(reference, monkeypatch, budget):
    monkeypatch.setattr(bed, "RAW_SLAB_BYTES", budget)
    prefix = reference / "data/edge/plink_made" / "base_n43_m61"
    file = open_filesets([prefix])
    expected = bed_reader_dosages(prefix)
    rng = np.random.default_rng(budget)
    for _ in range(10):
        variants = np.sort(rng.choice(61, rng.integers(1, 62), replace=False))
        samples = np.sort(rng.choice(43, rng.integers(1, 44), replace=False))
        packed = file.read(variants, samples)
        np.testing.assert_array_equal(
            copies_of_hard_calls(packed, len(samples)), expected[np.ix_(variants, samples)]
        )


def test_a_file_that_shrinks_is_refused(reference, tmp_path):
    prefix = copy_fileset(reference / "data/edge/plink_made/base_n43_m61", tmp_path / "x")
    path = tmp_path / "x.bed"
    file = open_filesets([prefix])
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match="shorter"):
        file.read(np.arange(61), np.arange(43))
