"""The tutorial becomes a notebook, all of whose cells run, and which ends with a picture."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.documented_code import ROOT, blocks
from support.tiers import installed

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
