"""Public choices of a design that come from an LD panel."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

Float64 = npt.NDArray[np.float64]

OF_PANEL = "cuts of least LD in "
"""Beginning of the rule that gave LD blocks, if it is that of a panel."""


@dataclass(frozen=True, eq=False)
class ComponentDesign:
    """LD components that take the place of the variants in rows, sums and noise.

    Attributes
    ----------
    sizes : tuple of int
        Number of components of each LD block.
    chosen : ndarray of int32, shape (m,)
        Position of each component among those of its block, by descending variance in the panel.
    variances : ndarray of float64, shape (m,)
        Variance of each component, in squared lattice units.
    squared_norms : ndarray of float64, shape (m,)
        Squared norm of the row of the map that makes each component from codes.
    """

    sizes: tuple[int, ...]
    chosen: npt.NDArray[np.int32]
    variances: Float64
    squared_norms: Float64

    @cached_property
    def boundaries(self) -> tuple[int, ...]:
        """Boundaries of the LD blocks among the components: 0, ..., m."""
        return (0, *np.cumsum(self.sizes).tolist())


@dataclass(frozen=True, eq=False)
class PanelDesign:
    """Public panel of genotypes, and what it tells of the linkage disequilibrium.

    Attributes
    ----------
    file : str
        Name of the prefix of the panel's files, without directories.
    sha256 : str
        Digest of its .bed and .bim files.
    request : str
        SHA-256 of everything that determines the other fields.
    n_people : int
        Number of its people.
    boundaries : tuple of int
        Boundaries of the LD blocks among the variants.
    eigenvalues : ndarray of float64, at most 4,096 values
        Eigenvalues of the genotypes' correlation matrix in people outside the panel, of mean 1:
        each value is the mean of equally many neighbours.
    components : ComponentDesign or None
        LD components; None if the variants themselves are summed.
    """

    file: str
    sha256: str
    request: str
    n_people: int
    boundaries: tuple[int, ...]
    eigenvalues: Float64
    components: ComponentDesign | None


def without_arrays(value: Any) -> Any:
    """Return a JSON value with a list for every array, from dicts of dataclasses."""
    if isinstance(value, dict):
        return {name: without_arrays(part) for name, part in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else value


def to_array(kind: Any, values: list[float]) -> npt.NDArray[Any]:
    """Invert `without_arrays` for msgspec; `kind` is ``ndarray[shape, dtype[scalar type]]``."""
    (scalar,) = get_args(get_args(kind)[1])
    return np.array(values, dtype=scalar)
