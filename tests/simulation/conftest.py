"""The demo's panel, and populations made of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from primo_scale.simulation.mosaic import Mosaic, packed_genotypes
from primo_scale.simulation.panel import ReferencePanel, lay_out_sites, read_panel

MosaicOf = Callable[..., Mosaic]
PANEL_PREFIX = Path(__file__).resolve().parents[2] / "demo" / "1000g_eur343_chr22"


@pytest.fixture(scope="session")
def panel() -> ReferencePanel:
    return read_panel(str(PANEL_PREFIX))


@pytest.fixture(scope="session")
def mosaic_of(panel: ReferencePanel) -> MosaicOf:
    """Populations of the demo's panel; keywords: n_variants, mean_segment, missing_rate, seed."""

    def make(
        n_variants: int = 400,
        mean_segment: float = 50,
        missing_rate: float = 0,
        seed: int = 7,
    ) -> Mosaic:
        sites = lay_out_sites(panel, n_variants)
        return Mosaic(
            codes=panel.codes,
            panel_row=sites.panel_row,
            chromosome_starts=sites.chromosome_starts,
            mean_segment=mean_segment,
            missing_rate=missing_rate,
            seed=seed,
        )

    return make


@pytest.fixture(scope="session")
def raw_values() -> Callable[..., npt.NDArray[np.uint8]]:
    """Generate a cohort and unpack it: raw PLINK values, variants by people."""

    def unpack(mosaic: Mosaic, n_people: int, **options: int) -> npt.NDArray[np.uint8]:
        slabs = [slab.copy() for slab in packed_genotypes(mosaic, n_people, **options)]
        packed = np.concatenate(slabs)
        pairs = np.unpackbits(packed, axis=1, bitorder="little").reshape(len(packed), -1, 2)
        values = pairs[:, :, 0] + 2 * pairs[:, :, 1]
        assert not values[:, n_people:].any()  # padding bits
        return values[:, :n_people]

    return unpack
