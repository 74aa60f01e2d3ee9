"""A private release like that of the demo, and other people for programs to score with it."""

from pathlib import Path

import pytest
from support.command_io import PANEL, simulated, table_options
from support.small_cohort import command, succeeded

from primo_scale.cli.commands import release as make_release


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("catalogue")
    for seed, (name, people) in enumerate({"train": 600, "fresh": 80}.items(), start=1):
        simulated(folder / name, people, seed, missing=0.01, phenotypes=2)
    succeeded(command(
        make_release, "--bfile", folder / "train", *table_options(folder / "train"),
        "--ref-freq", f"{PANEL}.afreq", "--ld-blocks", "window:250", "--epsilon", 5,
        "--delta", 1e-6, "--sumstats", "--workers", 1, "--ledger", folder / "ledger.sqlite",
        "--out", folder / "release",
    ))  # fmt: skip
    return folder / "release"
