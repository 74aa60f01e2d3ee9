"""Figures that docs/maths prints, compared with what is computed here; tables as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, Decimal

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Figure:
    """Computed number, and the digits that docs/maths prints for it.

    The comparison uses the number of decimals of `stated`. A limit is the end of a safe range, and
    is rounded toward zero.
    """

    what: str
    value: float
    stated: str
    is_limit: bool = False

    @property
    def shown(self) -> str:
        """Value with as many decimals as `stated`."""
        step = Decimal(1).scaleb(Decimal(self.stated).as_tuple().exponent)  # type: ignore[arg-type]
        rounding = ROUND_DOWN if self.is_limit else ROUND_HALF_EVEN
        return str(Decimal(repr(self.value)).quantize(step, rounding))

    @property
    def agrees(self) -> bool:
        """Whether every printed digit is right."""
        return self.shown == self.stated


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def standard_error(values: npt.NDArray[np.float64]) -> float:
    """Return the standard error of the mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values)))
