"""Figures of the papers: the command, and those of Wu et al."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from experiments import papers_constants as papers
from experiments.reproduce import FIGURES, main
from experiments.reproduction import PaperFigure, Task
from experiments.wu_figures import draw_table_1, run_synthetic, run_table, table_1, unit_values


@pytest.mark.parametrize(("name", "n_training", "n_attributes"), [("insurance", 1070, 9),
                                                                 ("bike", 13903, 13)])  # fmt: skip
def test_tables_have_the_papers_sizes(name, n_training, n_attributes):
    values = unit_values(name, None)
    assert (round(0.8 * len(values)), values.shape[1] - 1) == (n_training, n_attributes)
    assert values.min() == 0
    assert values.max() == 1


def test_losses_on_insurance_are_ordered_as_in_the_paper():
    rows = pd.DataFrame(run_table(None, Task({"data": "insurance", "epsilon": 1.0}, range(5))))
    losses = rows.groupby("method").loss.median()
    assert losses["OLS"] == pytest.approx(0.009, abs=0.002)
    assert losses["OLS"] < losses["BGM-OLS"] < 0.12 < losses["DGM-OLS"]
    errors = rows.groupby("method").error.median()
    assert errors["OLS"] == 0 < errors["BGM-OLS"] < errors["DGM-OLS"]


@pytest.fixture
def folder(tmp_path):
    """Folder with a table `gpu` of 14 features, and in the last column the first once more."""
    rng = np.random.default_rng(5)
    table = pd.DataFrame(rng.uniform(size=(200, 14))).add_prefix("x")
    table.assign(y=table.x0).to_csv(tmp_path / "gpu.csv", index=False)
    return tmp_path


def test_a_table_of_the_user_is_added(folder):
    figure = table_1(folder)
    assert {setting["data"] for setting in figure.settings} == {"insurance", "bike", "gpu"}
    settings = [setting for setting in figure.settings if setting["data"] == "gpu"]
    rows = pd.DataFrame([row for s in settings for row in figure.run(Task(s, range(1)))])
    losses = rows.groupby("method").loss.mean()
    assert losses["OLS"] < 1e-6
    assert losses["BGM-OLS"] > 1e-3
    figure.draw(rows, folder / "figure.svg")
    assert "gpu" in (folder / "figure.svg").read_text()


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


@pytest.mark.parametrize(
    ("figure", "problem"), [("thesis-6", "no table of this figure"), ("wu-2", "no further tables")]
)
def test_tables_of_another_figure_are_refused(folder, figure, problem):
    result = CliRunner().invoke(main, [figure, "--tables", str(folder)])
    assert result.exit_code == 2
    assert problem in " ".join(result.output.split())


def test_synthetic_errors_are_those_of_a_direct_simulation():
    """The law of BGM's Gram matrix against rows with noise, on the same kind of data."""
    rows = pd.DataFrame(run_synthetic(Task({"n": 3000, "epsilon": 1.0}, range(20))))
    means = rows.groupby("method").error.mean()
    assert means["OLS"] < 1e-4  # the outcome has no noise; the ridge is 1e-5
    sd, direct = papers.multi_party_noise(1.0, 1e-5, 2), []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        true = rng.uniform(-0.1, 0.1, 10)
        X = rng.uniform(-1, 1, (3000, 10))
        noisy = np.column_stack([X, X @ true]) + sd * rng.standard_normal((3000, 11))
        weights = np.linalg.lstsq(noisy[:, :10], noisy[:, 10], rcond=None)[0]
        direct.append(np.linalg.norm(weights - true))
    assert means["BGM-OLS"] == pytest.approx(np.mean(direct), rel=0.1)


def test_the_command_runs_the_reduced_grid_of_all_figures(tmp_path, monkeypatch):
    whole = PaperFigure("squares", ({"a": 1}, {"a": 2}), run_table, draw_table_1, 25)
    quick = replace(whole, quick_settings=({"a": 2},), quick_repetitions=4)
    monkeypatch.setattr("experiments.reproduce.FIGURES", {"f": quick, "g": whole})
    runs = {}

    def record(figure, name, out, *, repetitions):
        runs[name] = ([*figure.tasks(repetitions)], out)
        return pd.DataFrame()

    monkeypatch.setattr("experiments.reproduce.reproduce", record)
    assert CliRunner().invoke(main, ["all", "--quick", "--out", str(tmp_path)]).exit_code == 0
    both = [Task({"a": 1}, range(3)), Task({"a": 2}, range(3))]
    folder = tmp_path / "quick"
    assert runs == {"f": ([Task({"a": 2}, range(4))], folder), "g": (both, folder)}


@pytest.mark.parametrize("figure", FIGURES.values(), ids=[*FIGURES])
def test_reduced_grids_are_smaller(figure):
    quick = figure.reduced()
    assert len(quick.settings) * quick.repetitions < len(figure.settings) * figure.repetitions
