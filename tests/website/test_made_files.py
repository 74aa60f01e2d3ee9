"""The notebook and the screenshots of the documentation can be made again."""

import base64
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.documented_code import blocks
from support.tiers import ROOT, installed, missing

pytestmark = pytest.mark.slow


def test_the_tutorial_becomes_an_executed_notebook(tmp_path: Path) -> None:
    installed("website", "jupytext")
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    script = [ROOT / "website" / "notebook.sh", sys.executable, tmp_path]
    done = subprocess.run(
        list(map(str, script)), env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    cells = json.loads((tmp_path / "tutorial.ipynb").read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(code) == len(blocks("docs/tutorial.md", "sh", "python")) + 1
    assert all(cell["execution_count"] for cell in code)
    printed = "".join(
        "".join(output.get("text", [])) for cell in code for output in cell["outputs"]
    )
    assert printed.count("\nverified: ") == 1 and "NOT PRIVATE: computed from" in printed
    words = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    assert "```" not in words, "outputs stand beside the cells that print them"
    pictures = [output["data"]["image/png"] for output in code[-1]["outputs"] if "data" in output]
    assert [base64.b64decode(picture)[:4] for picture in pictures] == [b"\x89PNG"]


def test_the_screenshots_are_made(tmp_path: Path) -> None:
    if shutil.which("chromium") is None:
        missing("chromium")
    script = [sys.executable, str(ROOT / "website/screenshots.py"), str(tmp_path)]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    terminal = (tmp_path / "terminal.svg").read_text()
    words = terminal.replace("&#160;", " ")
    assert "(5, 1e-09)-differentially private" in words and "/home/me/demo-run/release" in words
    assert str(tmp_path) not in terminal and "url(" not in terminal.replace("url(#", "")
    assert "━" not in terminal, "a bar of progress is left"
    picture = (tmp_path / "report.png").read_bytes()
    assert picture.startswith(b"\x89PNG") and 50_000 < len(picture) < 500_000
