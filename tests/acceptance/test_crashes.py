"""A release that is killed at any step is completed by a retry, with one charge and one noise.

The process ends as in a power failure, without handlers or flushes.
"""

from __future__ import annotations

import importlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from acceptance_inputs import texts
from command_io import table_options
from crash import KILLED, STEPS, killed_at, steps_passed

from primo_scale.ledger.ledger import Ledger
from primo_scale.ledger.spending import Balance

ROOT = Path(__file__).resolve().parents[2]
PANEL = ROOT / "demo" / "1000g_eur343_chr22"
DELTA = 1e-7


@pytest.fixture(scope="module")
def accumulated(run, tmp_path_factory) -> Path:
    """Provide a directory with statistics, and a ledger with a budget for two releases."""
    prefix, directory = tmp_path_factory.mktemp("cohort") / "c", tmp_path_factory.mktemp("crash")
    work, ledger = directory / "work", directory / "ledger.sqlite"
    run("simulate", "--bfile", PANEL, "--out", prefix, "--samples", 400, "--seed", 1,
        "--variants", 90, "--phenotypes", 2)  # fmt: skip
    run("ingest", "--bfile", prefix, "--out", f"{prefix}.zarr")
    run("accumulate", "--genotypes", f"{prefix}.zarr", *table_options(prefix),
        "--ref-freq", f"{PANEL}.afreq", "--ld-blocks", "window:30", "--epsilon", 2,
        "--delta", DELTA, "--accept-noise", "--work-dir", work)  # fmt: skip
    with Ledger(ledger):
        pass
    run("ledger", "set-budget", "--ledger", ledger, "--cohort", "c", "--epsilon", 4,
        "--delta", DELTA)  # fmt: skip
    return directory


@pytest.fixture
def options(accumulated: Path, tmp_path: Path) -> list[str]:
    """Provide the options of a release of a copy of the statistics."""
    shutil.copytree(accumulated, tmp_path, dirs_exist_ok=True)
    return ["--work-dir", str(tmp_path / "work"), "--out", str(tmp_path / "release"),
            "--epsilon", "2", "--delta", str(DELTA), "--ledger", str(tmp_path / "ledger.sqlite"),
            "--cohort", "c", "--accept-noise"]  # fmt: skip


def finalize(options: Sequence[str]) -> None:
    try:
        importlib.import_module("pipelines.finalize").main(options)
    except SystemExit as end:
        assert end.code == 0, end.code


def balance_at(folder: Path) -> Balance:
    with Ledger(folder / "ledger.sqlite") as ledger:
        assert ledger.verify() == []
        (balance,) = ledger.balances()
        return balance


def stores(folder: Path) -> dict[str, bytes]:
    """Return the first tile of every finished store of private statistics, by charge."""
    found = {}
    for path in (folder / "work" / "private_statistics").glob("*.zarr"):
        document = json.loads((path / "zarr.json").read_text())
        if document["attributes"].get("complete"):
            found[path.stem] = (path / "gram" / "0" / "c" / "0" / "0").read_bytes()
    return found


def test_a_release_passes_every_step_in_order(options) -> None:
    passed = steps_passed(finalize, options)
    assert list(dict.fromkeys(passed)) == list(STEPS)


@pytest.mark.parametrize("label", STEPS)
def test_a_killed_release_continues_with_one_charge(label, options, run, tmp_path) -> None:
    assert killed_at(label, finalize, options) == KILLED
    noisy = stores(tmp_path)
    balance_at(tmp_path)
    published = tmp_path / "release"
    as_published = texts(published) if published.exists() else None
    assert as_published is None or "release.json" in as_published, "half a release"

    finalize(options)
    after = balance_at(tmp_path)
    assert "verified:" in run("verify", published, "--ledger", tmp_path / "ledger.sqlite").stdout
    if as_published is not None:
        assert texts(published) == as_published
    kept = stores(tmp_path)
    assert {charge: kept[charge] for charge in noisy} == noisy, "a second noise for one charge"
    charged = json.loads((published / "release.json").read_text())["ledger"]["charges"][-1]["id"]
    if noisy:  # the stored noise is released
        assert list(kept) == [charged] == list(noisy)
    assert len(after.charges) == 1
    finalize(options)  # a repetition spends and changes nothing
    assert balance_at(tmp_path) == after


def refused_line(options: Sequence[str], capsys) -> str:
    with pytest.raises(SystemExit) as end:
        importlib.import_module("pipelines.finalize").main(options)
    assert end.value.code == 3
    return capsys.readouterr().err


def test_a_lost_ledger_is_not_replaced_by_a_new_one(options, tmp_path, capsys) -> None:
    """While the work directory holds noise, no ledger is created and nothing is spent."""
    finalize(options)
    ledger = tmp_path / "ledger.sqlite"
    before = balance_at(tmp_path)
    ledger.rename(tmp_path / "backup.sqlite")
    shutil.move(tmp_path / "release", tmp_path / "published")
    assert "no ledger here" in refused_line(options, capsys)
    assert not ledger.exists()
    ledger.touch()
    assert "is an empty file" in refused_line(options, capsys)
    ledger.unlink()
    Ledger(ledger).__exit__(None, None, None)
    assert "does not know a charge of the work directory" in refused_line(options, capsys)
    with Ledger(ledger) as new:
        assert new.balances() == []
    assert not (tmp_path / "release").exists()
    (tmp_path / "backup.sqlite").replace(ledger)
    finalize(options)
    assert balance_at(tmp_path).spent == before.spent
