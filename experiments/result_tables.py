"""Tables of results as Markdown, and the standard errors in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def standard_error(values: npt.NDArray[np.float64]) -> float:
    """Return the standard error of the mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values)))
