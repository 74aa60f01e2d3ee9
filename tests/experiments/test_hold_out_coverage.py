"""The experiment on the intervals in people held out: one release, and its resumption."""

import json

import numpy as np
from click.testing import CliRunner

from experiments import hold_out_coverage
from experiments.hold_out_coverage import COHORTS, Population, main, report


def test_a_release_is_measured_once(tmp_path, monkeypatch):
    monkeypatch.setattr(hold_out_coverage, "FRESH", 4000)
    monkeypatch.setattr(hold_out_coverage, "MEASURED", 2)
    monkeypatch.setattr(hold_out_coverage, "COHORTS", COHORTS[:1])
    words = [str(tmp_path / "results"), "--releases", "1"]
    first = CliRunner().invoke(main, words)
    assert first.exit_code == 0, first.output
    again = CliRunner().invoke(main, words)
    assert again.output == first.output
    (line,) = (tmp_path / "results").read_text().splitlines()
    result = json.loads(line)
    assert len(result["stated"]) == 2 and np.shape(result["truth"]) == (3, 3)
    for stated in result["stated"]:
        found, truth = stated[0], result["truth"][0][0]
        assert found["r2_lower"] < found["r2"] < found["r2_upper"]
        assert abs(found["r2"] - truth) < 3 * (found["r2_upper"] - found["r2_lower"])
    missed = {**result, "truth": [[2.0] * 3] * 3}
    assert "| 0.0%" in report([missed])


def test_siblings_share_half_of_their_genotypes():
    random = np.random.default_rng(1)
    dosages, phenotypes, _ = Population.of("families of four").draw(4000, random)
    centred = (dosages - dosages.mean(axis=0)) / dosages.std(axis=0)
    assert abs(np.mean(centred[::4] * centred[1::4]) - 0.5) < 0.02
    assert abs(np.mean(centred[3:-1:4] * centred[4::4])) < 0.02
    assert set(np.unique(phenotypes[:, 2])) == {0.0, 1.0}
