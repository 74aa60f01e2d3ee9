"""The frame of the figures: what is divided, run, resumed and drawn."""

import pandas as pd
import pytest

from experiments.reproduction import PaperFigure, reproduce


def squares(task):
    return [{**task.setting, "seed": seed, "square": seed**2} for seed in task.seeds]


def broken(task):
    raise ZeroDivisionError


def draw(rows, path):
    path.write_text(f"{len(rows)} rows")


FIGURE = PaperFigure("squares", ({"a": 1}, {"a": 2}), squares, draw, repetitions=25)


def test_a_figure_is_continued_and_extended(tmp_path):
    with pytest.raises(ZeroDivisionError):
        reproduce(PaperFigure("x", FIGURE.settings, broken, draw, 25), "f", tmp_path, repetitions=9)
    assert not list((tmp_path / "f").glob("*.csv"))
    first = reproduce(FIGURE, "f", tmp_path, repetitions=10)
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "f").glob("*.csv")}
    whole = reproduce(FIGURE, "f", tmp_path, repetitions=FIGURE.repetitions)
    assert all(path.stat().st_mtime_ns == time for path, time in kept.items())
    assert (len(first), len(whole)) == (20, 50)
    assert set(whole.seed) == set(range(25))
    pd.testing.assert_frame_equal(whole, pd.read_csv(tmp_path / "f.csv"))
    assert (tmp_path / "f.svg").read_text() == "50 rows"
