"""Snakemake runs the demo of workflows/, and so do the scripts of the processes of Nextflow."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from string import Template

import pandas as pd
import pytest
from support.command_io import PANEL
from support.tiers import ROOT, installed

from primo_scale.ledger.ledger import Ledger

WORKFLOWS = ROOT / "workflows"
DEMO = dict(re.findall(r"^(\w+): (\S+)", (WORKFLOWS / "demo.yaml").read_text(), re.MULTILINE))

pytestmark = pytest.mark.slow


class _Groovy(Template):
    idpattern = r"[a-z_.]+"


def run(command: list[str | Path], folder: Path) -> str:
    """Run a command in a folder, with `primo-scale` of this Python on the path."""
    paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env={**os.environ, "PATH": paths},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


def check_results(verified: Path, evaluation: Path, ledger: Path) -> None:
    """Check that the release verifies, was paid for once and predicts the traits."""
    assert "\nverified: " in verified.read_text()
    explained = pd.read_csv(evaluation / "evaluation.tsv", sep="\t", comment="#")["r2"]
    assert len(explained) == 2 and explained.min() > 0.05
    with Ledger(ledger, create=False) as opened:
        (account,) = opened.balances()
        assert len(account.charges) == 1


def test_snakemake_runs_the_demo_and_a_repeated_job_spends_nothing(tmp_path: Path) -> None:
    (tmp_path / "demo").symlink_to(ROOT / "demo")
    command = [
        installed("workflows", "snakemake"), "--cores", "2", "--snakefile", WORKFLOWS / "Snakefile",
        "--configfile", WORKFLOWS / "demo.yaml",
    ]  # fmt: skip
    run(command, tmp_path)
    out = tmp_path / DEMO["out"]
    weights = (out / "release" / "weights.tsv.gz").read_bytes()
    (out / "train.bed").touch()
    assert "localrule release" in run(command, tmp_path)
    assert (out / "release" / "weights.tsv.gz").read_bytes() == weights
    assert "Nothing to be done" in run(command, tmp_path)
    check_results(out / "verified.txt", out / "evaluation", out / "ledger.sqlite")


def test_nextflow_processes_run_the_demo_and_a_repeated_task_spends_nothing(tmp_path: Path) -> None:
    """Each script runs in a folder of its own with links to its inputs, as in Nextflow."""
    processes = re.findall(
        r'^process (\w+) \{.*?"""\n(.*?)"""', (WORKFLOWS / "main.nf").read_text(), re.M | re.S
    )
    scripts = {name: text.replace("\\\\\n", "\\\n") for name, text in processes}
    panel = [PANEL.with_suffix(suffix) for suffix in (".bed", ".bim", ".fam", ".afreq")]
    common = {"panel": PANEL.name, "private_folder": str(tmp_path)}
    common |= {f"params.{name}": value for name, value in DEMO.items()}

    def task(process: str, inputs: list[Path], **values: object) -> list[Path]:
        folder = tmp_path / f"task{len(list(tmp_path.glob('task*')))}"
        folder.mkdir()
        for path in inputs:
            (folder / path.name).symlink_to(path)
        script = _Groovy(scripts[process]).substitute(common | values)
        run(["bash", "-euo", "pipefail", "-c", script], folder)
        return sorted(path for path in folder.iterdir() if not path.is_symlink())

    train = task("SIMULATE", panel, prefix="train", people=10000, seed=1)
    fresh = task("SIMULATE", panel, prefix="fresh", people=1000, seed=2)
    (release,) = task("RELEASE", train + panel, prefix="train")
    (repeated,) = task("RELEASE", train + panel, prefix="train")
    name = "weights.tsv.gz"
    assert (release / name).read_bytes() == (repeated / name).read_bytes()
    (verified,) = task("VERIFY", [release], release="release")
    (evaluation,) = task("EVALUATE", [release, *fresh], release="release", prefix="fresh")
    check_results(verified, evaluation, tmp_path / "ledger.sqlite")


def test_the_nextflow_file_is_parsed_and_a_fault_is_found(tmp_path: Path) -> None:
    python = installed("workflows", "python")
    code = (
        "import reftrace, sys; found = reftrace.parse_modules(sys.argv[1]);"
        "print(len(found.errors), *(p.name for each in found.results for p in each.processes))"
    )
    shutil.copy(WORKFLOWS / "main.nf", tmp_path)
    parse: list[str | Path] = [python, "-c", code, tmp_path]
    assert run(parse, tmp_path) == "0 SIMULATE RELEASE VERIFY EVALUATE\n"
    text = (tmp_path / "main.nf").read_text()
    (tmp_path / "main.nf").write_text(text.replace("maxRetries 2", "maxRetries 2 {"))
    assert run(parse, tmp_path) == "1\n"
