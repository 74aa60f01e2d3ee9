"""Tables of the methods, against the methods themselves and releases that contradict them."""

from typing import Any

import numpy as np
import pytest
from support.documents import put, schema_problems
from support.methods_examples import inputs_for, statistics_of
from support.release_edits import failed
from support.release_examples import MODES, example_document, example_statement, example_weights

from primo_scale.methods.catalogue import ESTIMATORS, METHODS, SHRINKAGES, estimator_for, load
from primo_scale.methods.solve import adjusted
from primo_scale.verify import guarantee as recompute_method
from primo_scale.verify.guarantee import (
    PARAMETERS,
    WITHOUT_PENALTIES,
    estimation_problems,
    guarantee_findings,
)


def test_the_table_is_that_of_the_methods():
    assert recompute_method.METHODS.keys() == METHODS.keys()
    for name, does in recompute_method.METHODS.items():
        method = METHODS[name]
        assert does.privacy == tuple(map(str, method.privacy))
        recipe = method.recipe(7, 100 if does.subsamples else None)
        assert (recipe.eigenvalue_share > 0) is does.measures_eigenvalue
        assert recipe.gram_copies == (7 if does.copies_each else 1)
        assert (recipe.subsample == 100) is does.subsamples
        choices = (*SHRINKAGES, "ridge") if len(does.estimators) > 1 else ()
        chosen = [estimator_for(method, ESTIMATORS.get(name)) for name in (None, *choices)]
        assert {estimator.name for estimator in chosen} == set(does.estimators)
        projects = ("projection_multiplier", "projection_radius")
        assert does.parameters == (projects if method.projects_phenotypes else ())


def test_the_numbers_are_those_of_the_estimators():
    assert PARAMETERS.keys() == ESTIMATORS.keys()
    X, fixed, Y = np.eye(3, dtype=int), np.ones((3, 1), dtype=int), np.ones((3, 2), dtype=int)
    statistics = statistics_of(X, fixed, Y)
    inputs = inputs_for(statistics, 3)
    for name, estimator in ESTIMATORS.items():
        found = load(estimator.solver)(adjusted(statistics, inputs), inputs, estimator)
        assert set(found.parameters) == set(PARAMETERS[name])
        assert bool(found.penalties) is estimator.is_ridge is (name not in WITHOUT_PENALTIES)


@pytest.mark.parametrize(
    ("mode", "path", "value", "check"),
    [
        ("full", "mechanism.method", "best-method", "method"),
        ("full", "mechanism.method", "reuse-cov-gauss-2", "method"),
        ("ada-ssp", "estimation.parameters", {}, "estimation"),
        # No option can ask for such a ridge, and no other sampler is proved.
        *(("full", "estimation.penalties", penalties, "estimation")
          for penalties in ([-1.5, -1.5], [1.5, 1.6])),
        *(("full", "mechanism.sampler", words, "stamp")
          for words in ("numpy.default_rng(42)", "float64 normal, seed 42", "")),
    ],
)  # fmt: skip
def test_a_contradiction_to_the_tables_is_found(mode, path, value, check):
    document = put(example_document(mode), path, value)
    assert failed(document) == [check]


@pytest.mark.parametrize("mode", MODES)
def test_no_release_can_go_by_the_name_of_a_method_that_measures_something_else(mode):
    """Only methods that measure the same, for the same unit, can stand for each other."""
    document = example_document(mode)
    does = recompute_method.METHODS[document["mechanism"]["method"]]
    privacy = document["guarantee"]["privacy"]
    for name, other in recompute_method.METHODS.items():
        document["mechanism"]["method"] = name
        alike = ("measures_eigenvalue", "copies_each", "subsamples")
        same = all(getattr(does, part) == getattr(other, part) for part in alike)
        found = [f for f in guarantee_findings(document) if f.check == "method"]
        assert [f.ok for f in found] == [same and privacy in other.privacy], name


def test_copies_for_fewer_phenotypes_than_there_are_are_found():
    assert "method" in failed(put(example_document("naive"), "mechanism.gram_copies", 1))


@pytest.mark.parametrize("mode", ["full", "full-add-remove", "ada-ssp", "feature"])
@pytest.mark.parametrize("name", ["n_samples_exact", "genetic_factors", "effect_variance"])
def test_a_number_that_is_none_of_the_estimators_is_found(mode, name):
    document = example_document(mode)
    document["estimation"]["parameters"][name] = 4711
    assert failed(document) == ["estimation"]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_an_estimator_belongs_to_its_method(estimator):
    document = example_document("full")
    document["estimation"] |= {
        "estimator": estimator,
        "parameters": dict.fromkeys(PARAMETERS[estimator], 1.0),
    }
    if estimator in WITHOUT_PENALTIES:
        document["estimation"]["penalties"] = []
    chosen = estimator in (*SHRINKAGES, "ridge")
    assert failed(document) == ([] if chosen else ["estimation"])


def test_without_noise_no_estimator_chooses_a_penalty_by_the_noise():
    statement = example_statement(example_weights(), private=False)
    ridge = {"estimator": "ridge", "parameters": {}, "penalties": [1.5], "public_scores": []}
    document = {"estimation": ridge, "mechanism": None, "cohort": {"component_sizes": None}}
    document["public_inputs"] = {"score_features": []}
    assert statement.estimation.estimator == "ridge"
    assert estimation_problems(document) == []
    of_components = {**document, "cohort": {"component_sizes": [1]}}
    assert estimation_problems(of_components) == ["estimator is ridge, not one of point-normal"]
    for name in ("point-normal", "effect-variances", "genetic-factors", "known-noise"):
        parameters = dict.fromkeys(PARAMETERS[name], 1.0)
        document["estimation"] = {
            **ridge,
            "estimator": name,
            "parameters": parameters,
            "penalties": [],
        }
        allowed = name in ("point-normal", "effect-variances")
        problem = f"estimator is {name}, not one of point-normal, effect-variances, ridge"
        assert estimation_problems(document) == ([] if allowed else [problem])


def with_scores(**changes: Any) -> dict[str, Any]:
    slopes = [
        {"phenotype": name, "slope": 0.5, "standard_error": 0.1} for name in ("height", "LDL")
    ]
    score = {"file": "PGS1.txt.gz", "sha256": "0" * 64, "pgs_id": "PGS1", "n_variants": 9,
             "n_matched": 7, "slopes": slopes}  # fmt: skip
    return put(example_document(), "estimation.public_scores", [{**score, **changes}])


def test_public_scores_are_checked_against_the_method_and_the_sizes():
    assert schema_problems(with_scores()) == []
    assert estimation_problems(with_scores()) == []
    (problem,) = estimation_problems(put(with_scores(), "mechanism.method", "naive"))
    assert problem == "naive does not build on public scores"
    for n_matched, n_variants in ((8, 9), (7, 6)):
        document = with_scores(n_matched=n_matched, n_variants=n_variants)
        assert estimation_problems(document) == ["PGS1.txt.gz matches more variants than there are"]
    slope = {"phenotype": "BMI", "slope": 0.5, "standard_error": 0.1}
    twice = {**slope, "phenotype": "LDL"}
    for slopes in ([slope], [twice, twice]):
        (problem,) = estimation_problems(with_scores(slopes=slopes))
        assert "are not of distinct phenotypes" in problem
    assert schema_problems(with_scores(file="/secret/place/PGS1.txt.gz"))
    assert schema_problems(with_scores(slopes=[]))
