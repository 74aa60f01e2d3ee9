"""The documentation site builds without warnings, asks no other server, and fits a phone."""

import os
import re
import subprocess
import sys
import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from browser import LIMIT, WINDOWS, accepted, in_chromium, seen
from support.tiers import ROOT, installed

pytestmark = pytest.mark.slow

_PROBE = """<!doctype html><body>
<iframe style="width: 390px; height: 800px; border: 0" src="PAGE"></iframe><script>
const frame = document.querySelector('iframe');
frame.onload = () => { document.title = frame.contentDocument.documentElement.scrollWidth; };
</script></body>"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, whose every internal link leads somewhere: --strict makes warnings errors."""
    mkdocs = installed("website", "mkdocs")
    out = tmp_path_factory.mktemp("site")
    command = [mkdocs, "build", "--quiet", "--strict", "--config-file", "website/mkdocs.yml"]
    environment = {
        **os.environ,
        "NO_MKDOCS_2_WARNING": "1",
        "PRIMO_SCALE_PYTHON": sys.executable,
    }
    done = subprocess.run(
        [*map(str, command), "--site-dir", str(out)],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return out


class _Handler(SimpleHTTPRequestHandler):
    """Files of the site, and /wait, which answers late and so keeps a page loading."""

    def do_GET(self):
        if self.path == "/wait":
            time.sleep(8)
        super().do_GET()

    def log_message(self, *_):
        """Print nothing."""


@pytest.fixture(scope="module")
def address(site):
    """Address at which the site is served."""
    handler = partial(_Handler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def document(url, folder, *options):
    """Return the document of a page when it is loaded."""
    return in_chromium(url, folder, *options, "--dump-dom")


def pages_of(site):
    """Return the paths of the pages, without the copies of source files."""
    pages = (path.relative_to(site).as_posix() for path in sorted(site.rglob("*.html")))
    return [page for page in pages if not page.startswith("source/")]


def test_every_page_loads_nothing_from_elsewhere(site):
    pages = sorted(site.rglob("*.html"))
    assert pages
    loads = re.compile(r'(?:<(?:script|img|iframe|source)\b[^>]*\bsrc|<link\b[^>]*\bhref)="https?:')
    assert [page.name for page in pages if loads.search(page.read_text())] == []


def test_formulas_are_mathml_and_no_latex_is_left(site):
    pages = sorted((site / "maths").glob("*.html"))
    assert any("<math " in page.read_text() for page in pages)
    left = re.compile(r"arithmatex|\\[(\[a-zA-Z]|\$\$")
    plain = {page.name: re.sub(r"<(pre|code)\b.*?</\1>", "", page.read_text(), flags=re.DOTALL)
             for page in pages}  # fmt: skip
    bodies = {name: text[text.index("<article") : text.index("</article")]
              for name, text in plain.items()}  # fmt: skip
    assert [name for name, text in bodies.items() if left.search(text)] == []


def test_the_interface_has_every_public_name(site):
    import primo_scale

    pages = "".join(page.read_text() for page in (site / "api").glob("*.html"))
    names = [name for name in primo_scale.__all__ if not name.startswith("_")]
    assert [name for name in names if f'id="primo_scale.{name}"' not in pages] == []
    assert "hold_out: float | None = None" in pages


def test_the_home_page_has_the_version(site):
    """That the menu leads to every page, tests/docs check in its source."""
    from primo_scale import __version__

    assert f"primo_scale {__version__}" in (site / "index.html").read_text()


def test_no_page_scrolls_sideways_on_a_phone(site, address, tmp_path):
    wide = {}
    for page in pages_of(site):  # one at a time, because Chromium may hang when a frame moves on
        (site / "probe.html").write_text(_PROBE.replace("PAGE", page))
        printed = document(f"{address}/probe.html", tmp_path)
        wide[page] = int(re.findall(r"<title>(.*?)</title>", printed)[0])
    assert {page: width for page, width in wide.items() if width > 390} == {}


@pytest.mark.parametrize(("width", "dark"), WINDOWS)
def test_the_home_page_looks_as_accepted(width, dark, address, tmp_path):
    window = {"width": width, "dark": dark, "height": 1000}
    now = seen(f"{address}/index.html", tmp_path, **window)
    before = accepted(f"home-{width}-{'dark' if dark else 'light'}", now)
    assert np.abs(now - before).mean() < LIMIT


SEARCHED = {
    "--hold-out": "how-to/options.html",
    "hold_out": "how-to/options.html",
    "--pc-loadings": "how-to/options.html",
    "glossary": "glossary.html",
    "install": "installation.html",
}


def searched(words, place, site, address, folder):
    """Return the pages that the search finds on the page at an address, the best first."""
    home = (site / "index.html").read_text()
    waiting = f'<img src="{address}/wait"></body>'  # else the page is loaded before the search
    (site / "search.html").write_text(home.replace("</body>", waiting))
    printed = document(f"{place}/search.html?q={words}", folder)
    return re.findall(r'<a href="([^"]*)" class="md-search-result__link"', printed)[:8]


@pytest.mark.parametrize("words", SEARCHED)
def test_the_search_finds(words, site, address, tmp_path):
    found = searched(words, address, site, address, tmp_path)
    assert any(f"{address}/{SEARCHED[words]}" in link for link in found), found


def test_the_search_works_from_a_disk(site, address, tmp_path):
    found = searched("--hold-out", site.as_uri(), site, address, tmp_path)
    assert f"{site.as_uri()}/how-to/options.html#hold-out" in found
