"""The demo's panel, and populations made of it."""

import numpy as np
import pytest
from support.command_io import PANEL

from primo_scale.simulation.cohort import Mosaic, genotype_slabs, lay_out_sites, read_panel


@pytest.fixture(scope="session")
def panel():
    return read_panel(str(PANEL))


@pytest.fixture(scope="session")
def mosaic_of(panel):
    def make(n_variants=400, mean_segment=50, missing_rate=0, seed=7):
        _, panel_row, starts = lay_out_sites(panel, n_variants)
        return Mosaic(
            codes=panel.codes,
            panel_row=panel_row,
            chromosome_starts=starts,
            mean_segment=mean_segment,
            missing_rate=missing_rate,
            seed=seed,
        )

    return make


@pytest.fixture(scope="session")
def raw_values():
    def unpack(mosaic, n_people):
        packed = np.full((mosaic.n_variants, -(-n_people // 4)), 0xFF, dtype=np.uint8)
        for first_variant, first_person, part in genotype_slabs(mosaic, n_people):
            rows, width = part.shape
            packed[first_variant:, first_person // 4 :][:rows, :width] = part
        pairs = np.unpackbits(packed, axis=1, bitorder="little").reshape(len(packed), -1, 2)
        values = pairs[:, :, 0] + 2 * pairs[:, :, 1]
        assert not values[:, n_people:].any()  # padding bits
        return values[:, :n_people]

    return unpack
