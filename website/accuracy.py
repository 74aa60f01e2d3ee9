"""Draw docs/accuracy.svg: accuracy against epsilon in the demo's cohort (`make demo` first).

    python website/accuracy.py > docs/accuracy.svg

Each point is the R^2 of one release's scores in people outside of the cohort, the mean of the three
quantitative phenotypes; the line joins the means of `REPEATS` releases.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

import primo_scale as ps

EPSILONS, REPEATS = (0.3, 0.5, 1, 2, 3, 5, 8), 3
DATA, PANEL = Path("demo-run"), "demo/1000g_eur343_chr22"
WIDTH, HEIGHT, LEFT, TOP = 560, 240, 60, 20
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #444c56; }
path, line { fill: none; stroke: #8b949e; }
.private { stroke: #0b62b8; stroke-width: 2.5; } circle { fill: #0b62b8; }
.exact { stroke: #b42318; stroke-dasharray: 6 4; }
@media (prefers-color-scheme: dark) {
  text { fill: #c9d1d9; } .private { stroke: #6cb6ff; } circle { fill: #6cb6ff; }
  .exact { stroke: #ff8b80; }
}
"""


def r2_of(directory: Path, folder: Path) -> float:
    """Return the mean R^2 of the quantitative phenotypes in the demo's fresh people."""
    found = ps.evaluate(
        weights=[directory], bfile=DATA / "fresh", pheno=DATA / "fresh.pheno.tsv",
        pheno_name=["QT1", "QT2", "QT3"], out=folder / "evaluation",
    )  # fmt: skip
    return float(np.mean([each.measures.r2.value for each in found.results]))


def released(epsilon: float, folder: Path) -> float:
    """Return the accuracy of one release of the demo's cohort, with a ledger of its own."""
    ps.release(
        bfile=DATA / "train", pheno=DATA / "train.pheno.tsv", ref_freq=f"{PANEL}.afreq",
        pheno_bounds=DATA / "train.pheno-bounds.tsv", ld_panel=PANEL, epsilon=epsilon, delta=1e-9,
        accept_noise=True, out=folder / "release", ledger=folder / "ledger.sqlite",
    )  # fmt: skip
    return r2_of(folder / "release", folder)


def drawn(points: list[tuple[float, list[float]]], exact: float) -> str:
    """Return the picture."""
    top, low, high = 0.32, np.log(EPSILONS[0]), np.log(EPSILONS[-1])

    def place(epsilon: float, r2: float) -> tuple[float, float]:
        x = (np.log(epsilon) - low) / (high - low) * WIDTH
        return LEFT + float(x), TOP + HEIGHT * (1 - r2 / top)

    line = "L".join("{:.1f} {:.1f}".format(*place(e, float(np.mean(r)))) for e, r in points)
    marks = [
        f'<text x="{place(e, 0)[0]:.0f}" y="{TOP + HEIGHT + 18}" text-anchor="middle">{e:g}</text>'
        for e in EPSILONS
    ]
    marks += [
        f'<text x="{LEFT - 8}" y="{place(1, r2)[1] + 4:.0f}" text-anchor="end">{r2:.1f}</text>'
        for r2 in (0, 0.1, 0.2, 0.3)
    ]
    dots = [
        '<circle cx="{:.1f}" cy="{:.1f}" r="2.5"/>'.format(*place(e, each))
        for e, found in points
        for each in found
    ]
    y = place(1, exact)[1]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 20} '
            f'{TOP + HEIGHT + 45}" role="img" aria-label="R^2 against epsilon">',
            f"<style>{STYLE}</style>",
            f'<path d="M{LEFT} {TOP}V{TOP + HEIGHT}H{LEFT + WIDTH}"/>',
            f'<line class="exact" x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>',
            f'<text x="{LEFT + 6}" y="{y - 7:.0f}">without noise: {exact:.2f}</text>',
            f'<path class="private" d="M{line}"/>',
            *dots,
            *marks,
            f'<text x="{LEFT + WIDTH / 2}" y="{TOP + HEIGHT + 38}" text-anchor="middle">epsilon '
            "(less protection to the right)</text>",
            f'<text x="16" y="{TOP + HEIGHT / 2}" text-anchor="middle" transform="rotate(-90 16 '
            f'{TOP + HEIGHT / 2})">R² in new people</text>',
            "</svg>",
            "",
        ]
    )


def main() -> None:
    """Make the releases and print the picture."""
    points = []
    for epsilon in EPSILONS:
        found = []
        for _ in range(REPEATS):
            with tempfile.TemporaryDirectory() as folder:
                found.append(released(epsilon, Path(folder)))
        print(epsilon, found, file=sys.stderr)
        points.append((epsilon, found))
    with tempfile.TemporaryDirectory() as folder:
        exact = r2_of(DATA / "release-non-private", Path(folder))
    sys.stdout.write(drawn(points, exact))


if __name__ == "__main__":
    main()
