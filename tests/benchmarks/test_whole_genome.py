"""Costs of stages, and their extrapolation to a whole array."""

import logging

import pytest

from benchmarks.genome import WHOLE_ARRAY, Size, extrapolated, least_seconds, outcome_bytes
from benchmarks.stages import StageCosts, with_rest
from benchmarks.tables import TABLES
from primo_scale.run.run_log import LOGGER, stage

SIZE = Size(1_000, 2_000, (10, 100))
RATES = {"operations": 1e6, "decompositions": 2.0}


def seconds(people, variants, phenotypes):
    """Return made-up costs of the stages, which grow as those of a release do."""
    return {
        "checks": people * phenotypes / 1e5,
        "ingest": people * variants / 1e6,
        "outcomes": people * phenotypes / 1e4,
        "adjustment": people * phenotypes / 1e6,
        "accumulate": people * variants * (500 + 2 * outcome_bytes(phenotypes)) / 1e9,
        "finalize": variants * (7 + phenotypes) / 1e4,
    }


def row(phenotypes):
    stages = {
        name: {"seconds": cost, "cpu": 2 * cost, "peak": 2.0**30}
        for name, cost in seconds(SIZE.samples, SIZE.variants, phenotypes).items()
    }
    del stages["checks"]["peak"]
    whole = {"seconds": 40.0, "cpu": 80.0, "peak": 2.0**30}
    least = least_seconds(SIZE, phenotypes, 0.5, RATES)
    return {"phenotypes": phenotypes, "stages": {**stages, "whole": whole}, "least": least}


def test_a_whole_array_is_extrapolated_with_the_growth_of_each_stage():
    wanted = seconds(WHOLE_ARRAY.samples, WHOLE_ARRAY.variants, WHOLE_ARRAY.phenotypes[0])
    found = extrapolated(SIZE, [row(10), row(100)])
    assert {name: cost["seconds"] for name, cost in found.items()} == pytest.approx(wanted)
    assert {name: cost["cpu"] / 2 for name, cost in found.items()} == pytest.approx(wanted)


def test_many_phenotypes_have_one_byte_each():
    assert [outcome_bytes(phenotypes) for phenotypes in (10, 99, 100)] == [26, 204, 106]


def test_the_least_time_is_that_of_the_largest_part():
    """A thousand people, four blocks of 500 variants, and 13 columns in two planes of bytes."""
    least = least_seconds(SIZE, 10, 0.5, RATES)
    products = 1_000 * 4 * 500**2 + 4 * 1_000 * 2_000 * 13
    assert least == {"ingest": 0.5, "accumulate": products / 1e6, "finalize": 2.0}


def test_the_table_has_every_stage_beside_its_least_time():
    cohort = {
        "samples": SIZE.samples, "variants": SIZE.variants, "rows": [row(10), row(100)],
        "extrapolated": extrapolated(SIZE, [row(10), row(100)]),
    }  # fmt: skip
    text = TABLES["genome"]({"block": 500, "cpus": 2, "rates": RATES, "cohorts": [cohort]})
    assert "| finalize | 3.40 | 8% | 6.80 | 1.00 | 2.00 | 1.7 |" in text
    assert "| start and checks | 0.100 | 0% | 0.200 |  |  |  |" in text
    assert "| **whole release** | 40.0 | 100% | 80.0 | 1.00 |  |  |" in text
    assert "**Extrapolated** from n = 1,000, d = 2,000" in text


def test_stages_are_measured_from_their_lines_in_the_log(monkeypatch, caplog):
    costs = StageCosts()
    caplog.set_level(logging.DEBUG, LOGGER.name)
    monkeypatch.setattr(LOGGER, "handlers", [costs])
    with stage("first"):
        held = bytearray(64 << 20)
        del held
    with stage("second"):
        pass
    first, second = costs.costs["first"], costs.costs["second"]
    assert first["peak"] > second["peak"] + (32 << 20)
    assert min(first["seconds"], first["cpu"]) >= 0


def test_what_is_left_of_the_whole_is_the_start() -> None:
    stages = {"ingest": {"seconds": 2.0, "cpu": 3.0, "peak": 1.0}}
    found = with_rest(stages, {"seconds": 5.0, "cpu": 4.0, "peak": 1.0})
    assert found["checks"] == {"seconds": 3.0, "cpu": 1.0}
    assert list(found) == ["checks", "ingest", "whole"]
