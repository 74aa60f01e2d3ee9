"""Code blocks of the documentation, which tests run."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: str, *languages: str) -> list[tuple[str, str]]:
    """Return language and text of the blocks of a page in some languages, in their order."""
    found = _BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    return [block for block in found if block[0] in languages]


def run_blocks(page: str, folder: Path, python: str = sys.executable) -> None:
    """Run the blocks of a page marked sh or python in a folder with the repository's `demo`."""
    (folder / "demo").symlink_to(ROOT / "demo")
    script = [f'primo-scale() {{ {shlex.quote(python)} -m primo_scale "$@"; }}']
    for number, (language, text) in enumerate(blocks(page, "sh", "python")):
        if language == "python":
            (folder / f"{number}.py").write_text(text)
            text = f"{shlex.quote(python)} {number}.py"
        script.append(text)
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    environment["XDG_STATE_HOME"] = str(folder / "state")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(script)],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
