"""The figures that compare DP-SGD and other baselines with the product."""

import gzip

import numpy as np
import pandas as pd
import pytest

from experiments import primo_baselines, side_by_side
from experiments.baselines import Repetition, best_of_grids, by_dp_sgd, by_parties, product
from experiments.haplotypes import simulate
from experiments.reproduction import Task


def test_best_hyperparameters_are_chosen_by_the_mean_of_a_setting():
    rows = pd.DataFrame(
        [(1, "A, x", 0.9), (1, "A, x", 0.1), (1, "A, y", 0.6), (1, "A, y", 0.6), (1, "B", 0.3),
         (2, "A, x", 0.8), (2, "A, x", 0.8), (2, "A, y", 0.7), (2, "A, y", 0.7), (2, "B", 0.2)],
        columns=["l", "method", "R^2"],
    )  # fmt: skip
    best = best_of_grids(rows, ["l"])
    assert best.groupby(["l", "method"])["R^2"].agg(list).to_dict() == {
        (1, "A"): [0.6, 0.6], (1, "B"): [0.3], (2, "A"): [0.8, 0.8], (2, "B"): [0.2],
    }  # fmt: skip


def test_dp_sgd_wins_for_one_outcome_of_many_pixels():
    """PRIMO's Figure 6 on the digits, at its promise."""
    setting = {"data": "digits", "l": 1, "by": "here"}
    rows = pd.DataFrame(primo_baselines.run(Task(setting, range(3))))
    means = best_of_grids(rows, ["l"]).groupby("method")["R^2"].mean()
    assert means["OLS"] == pytest.approx(0.52, abs=0.02)
    assert means["ReuseCovGauss as printed"] < means["full DP"] < means["DP-SGD"] < means["OLS"]
    assert means["DP-SGD"] < means["DP-SGD (add-remove)"]


def test_mnist_is_read_from_the_file_that_the_environment_names(tmp_path, monkeypatch):
    pixels = np.arange(5400 * 6, dtype=np.uint32).astype(np.uint8).reshape(5400, 6)
    header = np.array([2051, 5400, 2, 3], ">i4").tobytes()
    for name, opened in (("images-idx3-ubyte", open), ("images-idx3-ubyte.gz", gzip.open)):
        with opened(tmp_path / name, "wb") as file:
            file.write(header + pixels.tobytes())
        monkeypatch.setenv("MNIST", str(tmp_path / name))
        found = primo_baselines.images("mnist", np.random.default_rng(1)) * 255
        assert found.shape == (5000, 6)
        assert {*map(tuple, found)} <= {*map(tuple, pixels.astype(float))}


def test_fresh_people_have_the_stated_heritability():
    cohort, fresh = side_by_side.cohorts({"d": 25, "l": 3}, np.random.default_rng(1))
    assert (cohort.n, fresh.n) == (side_by_side.N_PEOPLE, side_by_side.N_FRESH)
    assert not np.array_equal(cohort.haplotypes[: fresh.n], fresh.haplotypes)
    weights = np.linalg.lstsq(cohort.haplotypes, cohort.phenotypes, rcond=None)[0]
    assert fresh.pooled_r_squared(weights) == pytest.approx(0.3, abs=0.05)


@pytest.fixture(scope="module")
def scores():
    """R^2 of methods at two promises, for the same cohort and seeds."""
    cohort = simulate(5000, 20, 4, np.random.default_rng(3))
    found = {}
    for epsilon in (5.0, 0.1):
        repetition = Repetition(cohort, epsilon, 1e-7, seed=1)
        fits = {**product(repetition), **by_dp_sgd(repetition), **by_parties(repetition)}
        found[epsilon] = {name: cohort.pooled_r_squared(fit()) for name, fit in fits.items()}
    return pd.DataFrame(found)


def test_every_private_method_loses_accuracy_at_a_stricter_promise(scores):
    assert (scores[5.0] > scores[0.1]).all()


def test_central_release_is_better_than_release_by_parties(scores):
    parties = scores[scores.index.str.startswith("RMGM")]
    assert parties[5.0].max() < scores.loc["full DP", 5.0]
