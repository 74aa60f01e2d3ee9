"""One reference figure: what is computed here beside what docs/maths prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, Decimal


@dataclass(frozen=True)
class Figure:
    """A number with the digits that docs/maths prints for it.

    Attributes
    ----------
    what : str
        In words.
    value : float
        As computed here.
    stated : str
        As printed in docs/maths; its decimals are the ones compared.
    is_limit : bool
        The figure is the end of a range that is safe, so it is printed rounded toward zero.
    """

    what: str
    value: float
    stated: str
    is_limit: bool = False

    @property
    def shown(self) -> str:
        """The value with as many decimals as `stated` has."""
        step = Decimal(1).scaleb(Decimal(self.stated).as_tuple().exponent)  # type: ignore[arg-type]
        rounding = ROUND_DOWN if self.is_limit else ROUND_HALF_EVEN
        return str(Decimal(repr(self.value)).quantize(step, rounding))

    @property
    def agrees(self) -> bool:
        """Whether every printed digit is right."""
        return self.shown == self.stated


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, one string."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def figures_table(figures: Iterable[Figure]) -> str:
    """Figures as a Markdown table: what, computed, stated, whether they agree."""
    rows = [
        (f.what, f.shown, f.stated, "yes" if f.agrees else f"**no** ({f.value:.6g})")
        for f in figures
    ]
    return markdown_table(("figure", "computed", "docs/maths", "agrees"), rows)
