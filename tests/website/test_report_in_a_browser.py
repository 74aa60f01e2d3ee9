"""report.html in Chromium: axe-core finds nothing, pages fit, look as accepted, and print.

After a change of the report, look at it, and accept its new look:
``ACCEPT_SCREENSHOTS=1 python -m pytest tests/website/test_report_in_a_browser.py``.
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
from support.release_examples import publish_example
from support.tiers import ROOT, missing

_HEIGHT = 6400  # pixels, more than the report of the example has
AXE = ROOT / ".venv-website/lib"
_RUN = """
axe.run(document, {resultTypes: ['violations']}).then(found => {
  const result = document.createElement('pre');
  result.id = 'axe';
  result.textContent = JSON.stringify({
    dark: matchMedia('(prefers-color-scheme: dark)').matches,
    overflow: document.documentElement.scrollWidth - window.innerWidth,
    passes: found.passes.length,
    violations: found.violations.map(each => [each.id, each.nodes.map(node => node.html)]),
  });
  document.body.append(result);
});
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    out = tmp_path_factory.mktemp("report") / "out"
    return (publish_example(out, private=True) / "report.html").read_text()


def in_chromium(
    page: str, folder: Path, *options: str, width: int = 800, dark: bool = False
) -> str:
    """Open a page in a window of this width, and return what Chromium prints."""
    path = folder / "page.html"
    path.write_text(page)
    command = [
        shutil.which("chromium") or missing("chromium"), "--headless=new", "--no-sandbox",
        "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={folder / 'profile'}",
        f"--blink-settings=preferredColorScheme={0 if dark else 1}",
        f"--window-size={width},{_HEIGHT}", "--virtual-time-budget=20000", *options, path.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    return done.stdout


def checked(page: str, folder: Path, *, width: int, dark: bool) -> dict:
    """Return what axe-core says about a page in a window of this width."""
    found = sorted(AXE.glob("python*/site-packages/axe_core_python/axe.min.js"))
    axe = found[0].read_text() if found else missing("axe-core (make other-environments)")
    page = page.replace("</body>", f"<script>{axe}</script><script>{_RUN}</script></body>")
    printed = in_chromium(page, folder, "--dump-dom", width=width, dark=dark)
    (result,) = re.findall(r'<pre id="axe">(.*?)</pre>', printed, re.DOTALL)
    return json.loads(html.unescape(result))


def seen(page: str, folder: Path) -> np.ndarray:
    """Return the grey of each 20 x 20 pixels of a page, from 0 to 1."""
    from matplotlib import image  # which the quick tier does without

    in_chromium(page, folder, f"--screenshot={folder / 'seen.png'}")
    pixels = image.imread(folder / "seen.png")[..., :3].mean(axis=-1)
    rows, columns = pixels.shape[0] // 20, pixels.shape[1] // 20
    return pixels[: 20 * rows, : 20 * columns].reshape(rows, 20, columns, 20).mean((1, 3))


def n_pages(page: str, folder: Path) -> int:
    """Return the number of pages that a page takes on paper."""
    in_chromium(page, folder, f"--print-to-pdf={folder / 'page.pdf'}")
    return len(re.findall(rb"/Type /Page\b", (folder / "page.pdf").read_bytes()))


@pytest.mark.parametrize(
    ("width", "dark"), [(500, True), (1200, False)], ids=["narrow-dark", "wide-light"]
)
def test_the_report_is_accessible_and_fits_the_window(report, width, dark, tmp_path):
    result = checked(report, tmp_path, width=width, dark=dark)
    assert (result["violations"], result["dark"]) == ([], dark)
    assert result["passes"] > 20 and result["overflow"] <= 0


def test_the_report_looks_as_accepted(report, tmp_path):
    """A line more moves what follows, and differs five times as much as the limit."""
    from matplotlib import image

    accepted = Path(__file__).with_name("report-light.png")
    now = seen(report, tmp_path)
    if os.environ.get("ACCEPT_SCREENSHOTS"):
        image.imsave(accepted, now, cmap="gray", vmin=0, vmax=1)
    before = image.imread(accepted)[..., 0]
    assert np.abs(now - before).mean() < 0.01
    longer = report.replace("<h2", "<p>A line.</p><h2", 1)
    assert np.abs(seen(longer, tmp_path) - before).mean() > 0.01


def test_the_sign_off_prints_on_one_page(report, tmp_path):
    """It comes last, with the footer below it."""
    without = re.sub(r'<section class="sign-off".*</footer>', "", report, flags=re.DOTALL)
    assert without != report
    assert n_pages(report, tmp_path) == n_pages(without, tmp_path) + 1
