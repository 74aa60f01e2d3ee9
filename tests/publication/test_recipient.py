"""A recipient verifies a release with the few packages of docs/verifying.md, and nothing else."""

import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
# The packages of docs/verifying.md, and what these import.
ALLOWED = {
    "numpy", "scipy", "cryptography", "cffi", "_cffi_backend", "pycparser", "msgspec",
    "typing_extensions",
}  # fmt: skip
BLOCKED = """
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder

class Blocker(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if path is None and name not in {allowed}:
            spec = PathFinder.find_spec(name)
            if spec is not None and "site-packages" in str(spec.origin):
                raise ModuleNotFoundError(f"blocked: {{name}}", name=name)

sys.meta_path.insert(0, Blocker())
"""
VERIFY = """
import sys
import primo_scale
for finding in primo_scale.verify(sys.argv[1]).findings:
    print(finding.ok, finding.check, finding.detail)
"""


def run_blocked(program: str, release: Path) -> subprocess.CompletedProcess[str]:
    blocked = BLOCKED.format(allowed=ALLOWED)
    words = [sys.executable, "-c", blocked + program, str(release)]
    return subprocess.run(words, cwd=REPOSITORY, check=False, capture_output=True, text=True)


def test_a_release_is_verified_with_few_packages(pristine):
    result = run_blocked(VERIFY, release=pristine[True])
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    assert len(lines) >= 7
    assert [line for line in lines if not line.startswith("True ")] == []
    assert "blocked" in run_blocked("import pandas", release=pristine[True]).stderr


def test_the_documented_command_installs_these_packages():
    text = (REPOSITORY / "docs" / "verifying.md").read_text()
    (line,) = re.findall(r"^pip install ((?!--no-deps).*)$", text, re.M)
    named = {word.strip("'\"").partition(">")[0] for word in line.split()}
    assert named - {"click"} <= ALLOWED
    assert named >= {"numpy", "scipy", "msgspec", "cryptography", "click"}
