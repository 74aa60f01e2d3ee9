"""Make the screenshots of the documentation (`make screenshots`): docs/report.png and terminal.svg.

    python website/screenshots.py docs

Both show the demo's release: the first screen of its report on a desktop, and a terminal of 80
columns when it has ended.
"""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = 80
PROMPT = "$ primo-scale release ... --epsilon 5 --delta 1e-09 --out demo-run/release"
HOME = "/home/me"
_DEMO = """
import sys
from pathlib import Path
from demo import run
run.ROOT = Path.cwd()
run.simulate("train", run.N_TRAINING, seed=1, missing=0.005)
print("-- screenshot --", flush=True)
run.release_privately()
"""
_CODES = re.compile(r"(\x1b\[[0-9;?]*[A-Za-z]|\r?\n|\r)")


def at_terminal(command: list[str], folder: Path) -> str:
    """Return what a command prints at a terminal of 80 columns."""
    leader, follower = pty.openpty()
    termios.tcsetwinsize(follower, (50, COLUMNS))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"}
    environment.pop("COLUMNS", None)
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdin=follower, stdout=follower, stderr=follower
    ) as process:
        os.close(follower)
        printed = b""
        while True:
            try:
                part = os.read(leader, 65536)
            except OSError:  # the command has ended
                break
            if not part:
                break
            printed += part
    os.close(leader)
    if process.returncode:
        raise SystemExit(printed.decode())
    return printed.decode()


def rows_of(printed: str) -> list[str]:
    """Return the rows that stand on the terminal at the end, with their colours.

    Bars of progress have been wiped out by then.
    """
    rows, at = [""], 0
    for part in _CODES.split(printed):
        up = re.fullmatch(r"\x1b\[(\d*)A", part)
        if part.endswith("\n"):
            at += 1
            rows += [""] * (at == len(rows))
        elif up:
            at -= int(up[1] or 1)
        elif part == "\x1b[2K":
            rows[at] = ""
        elif part != "\r" and (part.endswith("m") or not part.startswith("\x1b")):
            rows[at] += part
    while rows and not _CODES.sub("", rows[-1]):
        rows.pop()
    return rows


def demo_release(folder: Path) -> list[str]:
    """Make the demo's release in an empty folder, and return the rows that it prints."""
    (folder / "demo").symlink_to(ROOT / "demo")
    (folder / "demo-run").mkdir()
    printed = at_terminal([sys.executable, "-c", _DEMO], folder)
    rows = rows_of(printed.partition("-- screenshot --")[2])
    first = next(number for number, row in enumerate(rows) if "Inputs" in row)
    return rows[first:]  # without the command


def drawn(rows: list[str]) -> str:
    """Return a picture of a terminal with these rows, in its own colours on every page."""
    with open(os.devnull, "w") as nowhere:
        console = Console(width=COLUMNS, record=True, file=nowhere, force_terminal=True)
        for row in (PROMPT, *rows):
            console.print(Text.from_ansi(row), soft_wrap=True)
    svg = console.export_svg(title="primo-scale release", unique_id="terminal")
    svg = re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)  # from another server
    # The site inverts figures that do not name this.
    return svg.replace("<style>", "<style>\n    /* the same in every prefers-color-scheme */", 1)


def photographed(page: Path, out: Path) -> None:
    """Write the first screen of a page on a desktop."""
    with tempfile.TemporaryDirectory() as profile:
        command = [
            shutil.which("chromium") or "chromium", "--headless=new", "--no-sandbox",
            "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}",
            "--blink-settings=preferredColorScheme=1", "--window-size=1100,860",
            f"--screenshot={out}", page.as_uri(),
        ]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True, timeout=300)


def main(out: Path) -> None:
    """Make the demo's release, and the screenshots of it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        rows = [row.replace(str(folder), HOME) for row in demo_release(folder)]
        (out / "terminal.svg").write_text(drawn(rows), encoding="utf-8")
        photographed(folder / "demo-run/release/report.html", out / "report.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
