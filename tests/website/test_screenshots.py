"""The screenshots of the documentation can be made again."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.tiers import ROOT, missing

pytestmark = pytest.mark.slow


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
