"""Differentially private polygenic-score weights from biobank-scale genotypes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import xarray

__version__ = "0.1.0"
__all__ = ["__version__", "open_genotypes"]


def open_genotypes(path: str | Path) -> xarray.DataArray:
    """Open a genotype store as a lazy dosage array; see `primo_scale.genotypes.dosage`."""
    from primo_scale.genotypes.dosage import open_genotypes as implementation

    return implementation(path)
