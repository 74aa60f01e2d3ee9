"""The documentation site builds without warnings and asks no other server for anything."""

import os
import re
import subprocess

import pytest
from support.tiers import ROOT, installed

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, whose every internal link leads somewhere: --strict makes warnings errors."""
    mkdocs = installed("website", "mkdocs")
    out = tmp_path_factory.mktemp("site")
    command = [mkdocs, "build", "--quiet", "--strict", "--config-file", "website/mkdocs.yml"]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        [*map(str, command), "--site-dir", str(out)],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return out


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

    page = (site / "api.html").read_text()
    names = [name for name in primo_scale.__all__ if not name.startswith("_")]
    assert [name for name in names if f'id="primo_scale.{name}"' not in page] == []
