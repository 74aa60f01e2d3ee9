"""Figures of the papers: how they are divided, run, resumed and drawn, and those of Wu et al."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from experiments.reproduce import main
from experiments.reproduction import PaperFigure, Task, reproduce
from experiments.wu_figures import run_table


def test_losses_on_insurance_are_ordered_as_in_the_paper():
    rows = pd.DataFrame(run_table(None, Task({"data": "insurance", "epsilon": 1.0}, range(5))))
    losses = rows.groupby("method").loss.median()
    assert losses["OLS"] == pytest.approx(0.009, abs=0.002)
    assert losses["OLS"] < losses["BGM-OLS"] < 0.12 < losses["DGM-OLS"]
    errors = rows.groupby("method").error.median()
    assert errors["OLS"] == 0 < errors["BGM-OLS"] < errors["DGM-OLS"]


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(5)
    table = pd.DataFrame(rng.uniform(size=(200, 14))).add_prefix("x")
    table.assign(y=table.x0).to_csv(tmp_path / "gpu.csv", index=False)
    return tmp_path


@pytest.mark.parametrize(
    ("column", "value"), [("x3", "a word"), ("x4", None), ("x5", 1.0)], ids=["text", "gap", "same"]
)
def test_a_malformed_table_is_refused_by_its_column(folder, column, value):
    table = pd.read_csv(folder / "gpu.csv").astype({column: object})
    table.loc[table.index[: 200 if value == 1.0 else 1], column] = value
    table.to_csv(folder / "gpu.csv", index=False)
    result = CliRunner().invoke(main, ["wu-table-1", "--tables", str(folder)])
    assert result.exit_code == 2
    assert f"gpu.csv: column {column}" in result.output


def test_the_command_runs_the_reduced_grid_of_all_figures(tmp_path, monkeypatch):
    quick = replace(FIGURE, quick_settings=({"a": 2},), quick_repetitions=4)
    monkeypatch.setattr("experiments.reproduce.FIGURES", {"f": quick, "g": FIGURE})
    runs = {}

    def record(figure, name, out, *, repetitions):
        runs[name] = ([*figure.tasks(repetitions)], out)
        return pd.DataFrame()

    monkeypatch.setattr("experiments.reproduce.reproduce", record)
    assert CliRunner().invoke(main, ["all", "--quick", "--out", str(tmp_path)]).exit_code == 0
    both = [Task({"a": 1}, range(3)), Task({"a": 2}, range(3))]
    folder = tmp_path / "quick"
    assert runs == {"f": ([Task({"a": 2}, range(4))], folder), "g": (both, folder)}


def squares(task):
    return [{**task.setting, "seed": seed, "square": seed**2} for seed in task.seeds]


def broken(task):
    raise ZeroDivisionError


def draw(rows, path):
    path.write_text(f"{len(rows)} rows")


FIGURE = PaperFigure("squares", ({"a": 1}, {"a": 2}), squares, draw, repetitions=25)


def test_a_figure_is_continued_and_extended(tmp_path):
    with pytest.raises(ZeroDivisionError):
        reproduce(replace(FIGURE, run=broken), "f", tmp_path, repetitions=9)
    assert not list((tmp_path / "f").glob("*.csv"))
    first = reproduce(FIGURE, "f", tmp_path, repetitions=10)
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "f").glob("*.csv")}
    whole = reproduce(FIGURE, "f", tmp_path, repetitions=FIGURE.repetitions)
    assert all(path.stat().st_mtime_ns == time for path, time in kept.items())
    assert (len(first), len(whole)) == (20, 50)
    assert set(whole.seed) == set(range(25))
    pd.testing.assert_frame_equal(whole, pd.read_csv(tmp_path / "f.csv"))
    assert (tmp_path / "f.svg").read_text() == "50 rows"
