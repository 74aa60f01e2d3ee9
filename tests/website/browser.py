"""Pages in headless Chromium: as documents, as pictures, on paper.

After a change of what a page looks like, look at it, and accept its new look:
``ACCEPT_SCREENSHOTS=1 python -m pytest tests/website -k looks``.
"""

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from support.tiers import ROOT, missing

WINDOWS = [
    pytest.param(width, dark, id=f"{width}-{'dark' if dark else 'light'}")
    for width in (1400, 390)
    for dark in (False, True)
]
"""Widths of a desktop and of a phone, and both themes."""
LIMIT = 0.01
"""Mean difference, of the greys of cells, at which a page has another look."""
_CELL = 20  # pixels
_AXE = """
axe.run(document, {resultTypes: ['violations']}).then(found => {
  const result = parent.document.createElement('pre');
  result.id = 'axe';
  result.textContent = JSON.stringify({
    dark: matchMedia('(prefers-color-scheme: dark)').matches,
    width: window.innerWidth,
    overflow: document.documentElement.scrollWidth - window.innerWidth,
    passes: found.passes.length,
    violations: found.violations.map(each => [each.id, each.nodes.map(node => node.html)]),
  });
  parent.document.body.append(result);
});
"""


def in_chromium(
    url: str, folder: Path, *options: str, width: int = 1400, height: int = 900, dark: bool = False
) -> str:
    """Open a page in a window of this size, and return what Chromium prints."""
    command = [
        shutil.which("chromium") or missing("chromium"), "--headless=new", "--no-sandbox",
        "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={folder / 'profile'}",
        f"--blink-settings=preferredColorScheme={0 if dark else 1}",
        f"--window-size={width},{height}", *options, url,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    return done.stdout


def written(page: str, folder: Path) -> str:
    """Write a page, and return its address."""
    path = folder / "page.html"
    path.write_text(page)
    return path.as_uri()


def loaded(page: str, folder: Path, **window: int | bool) -> str:
    """Return the document of a page after its scripts."""
    options = ("--virtual-time-budget=20000", "--dump-dom")
    return in_chromium(written(page, folder), folder, *options, **window)


def checked(page: str, folder: Path, *, width: int, dark: bool) -> dict:
    """Return what axe-core says about a page in a frame of this width.

    Windows are 500 pixels wide or more, but for screenshots.
    """
    found = sorted((ROOT / ".venv-website/lib").glob("python*/site-packages/axe_core_python/*.js"))
    axe = found[0].read_text() if found else missing("axe-core (make other-environments)")
    page = page.replace("</body>", f"<script>{axe}</script><script>{_AXE}</script></body>")
    frame = f'<iframe style="border: 0; width: {width}px" srcdoc="{html.escape(page)}"></iframe>'
    printed = loaded(f"<!doctype html><body>{frame}</body>", folder, dark=dark)
    (result,) = re.findall(r'<pre id="axe">(.*?)</pre>', printed, re.DOTALL)
    return json.loads(html.unescape(result))


def seen(url: str, folder: Path, **window: int | bool) -> np.ndarray:
    """Return the grey of each cell of a page, from 0 to 1."""
    from matplotlib import image  # which the quick tier does without

    picture = folder / "seen.png"
    options = ("--virtual-time-budget=20000", f"--screenshot={picture}")
    in_chromium(url, folder, *options, **window)
    pixels = image.imread(picture)[..., :3].mean(axis=-1)
    rows, columns = pixels.shape[0] // _CELL, pixels.shape[1] // _CELL
    cells = pixels[: _CELL * rows, : _CELL * columns].reshape(rows, _CELL, columns, _CELL)
    return cells.mean((1, 3))


def accepted(name: str, now: np.ndarray) -> np.ndarray:
    """Return the accepted look of a page, which is that of now if a person says so."""
    from matplotlib import image

    path = Path(__file__).with_name(f"{name}.png")
    if os.environ.get("ACCEPT_SCREENSHOTS"):
        image.imsave(path, now, cmap="gray", vmin=0, vmax=1)
    return image.imread(path)[..., 0]


def n_pages(page: str, folder: Path) -> int:
    """Return the number of pages that a page takes on paper."""
    in_chromium(written(page, folder), folder, f"--print-to-pdf={folder / 'page.pdf'}")
    return len(re.findall(rb"/Type /Page\b", (folder / "page.pdf").read_bytes()))
