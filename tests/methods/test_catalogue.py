"""The table of methods: what it allows, what each measures, and the automatic choice."""

from __future__ import annotations

import pytest

from primo_scale.errors import UsageError
from primo_scale.gaussian.calibration import mu_for
from primo_scale.gaussian.sensitivity import PrivacyUnit
from primo_scale.methods.catalogue import METHODS, choose_method, estimator_for, method_named
from primo_scale.methods.estimators import ESTIMATORS, SHRINKAGES
from primo_scale.privacy.mechanism import Promise, Recipe
from primo_scale.privacy.planning import PublicSizes

FULL, LABEL, FEATURE = PrivacyUnit.FULL, PrivacyUnit.LABEL, PrivacyUnit.FEATURE


def sizes(n_phenotypes, *, row_norm=25, n_samples=5008):
    """Rows of 25 variants of variance 1 at n = 5,008: docs/maths/papers.md, item 5."""
    return PublicSizes(
        n_samples=n_samples,
        n_variants=25,
        n_phenotypes=n_phenotypes,
        largest_block=25,
        row_norm=row_norm,
        variant_variance=1.0,
        phenotype_scale=1024,
    )


def test_methods_and_their_privacy_units():
    expected = {
        "reuse-cov-gauss": {FULL, LABEL, FEATURE},
        "reuse-cov-proj-x": {LABEL},
        "reuse-cov-proj-y": {FEATURE},
        "reuse-cov-proj": {FULL},
    }
    for name in ("sub-samp-reuse-cov", "naive"):
        expected[name] = {FULL, FEATURE}
    for name in ("ssp", "ada-ssp", "ada-ssp-budget", "const-ssp-full"):
        expected[name] = {FULL, FEATURE}
    assert {name: set(method.privacy) for name, method in METHODS.items()} == expected


def test_recipes():
    assert METHODS["reuse-cov-gauss"].recipe(7, None) == Recipe()
    assert METHODS["naive"].recipe(7, None) == Recipe(gram_copies=7)
    assert METHODS["ada-ssp"].recipe(7, None) == Recipe(eigenvalue_share=1 / 3)
    assert METHODS["ada-ssp-budget"].recipe(7, None) == Recipe(eigenvalue_share=0.05)
    assert METHODS["sub-samp-reuse-cov"].recipe(7, 900) == Recipe(subsample=900)


@pytest.mark.parametrize(
    ("name", "subsample"), [("sub-samp-reuse-cov", None), ("ssp", 900), ("reuse-cov-gauss", 1)]
)
def test_a_subsample_belongs_to_one_method(name, subsample):
    with pytest.raises(UsageError, match=r"subsample|everybody"):
        METHODS[name].recipe(7, subsample)


def test_unknown_and_unsupported_methods_are_refused_with_alternatives():
    assert method_named("ssp", FEATURE) is METHODS["ssp"]
    with pytest.raises(UsageError) as refused:
        method_named("lasso", FULL)
    assert "reuse-cov-proj-x" in str(refused.value)
    with pytest.raises(UsageError) as refused:
        method_named("ssp", LABEL)
    assert "reuse-cov-proj-x" in str(refused.value)
    assert "reuse-cov-proj-y" not in str(refused.value)


def test_shrinkage_can_be_chosen_only_where_the_method_leaves_it_open():
    gauss = METHODS["reuse-cov-gauss"]
    assert estimator_for(gauss, None) is ESTIMATORS["known-noise"]
    for chosen in map(ESTIMATORS.__getitem__, (*SHRINKAGES, "ridge")):
        assert estimator_for(gauss, chosen) is chosen
    with pytest.raises(UsageError, match="no such shrinkage"):
        estimator_for(gauss, ESTIMATORS["projection"])
    for name in ("ssp", "ada-ssp", "const-ssp-full", "reuse-cov-proj", "reuse-cov-proj-x"):
        assert not estimator_for(METHODS[name], None).is_choice
        with pytest.raises(UsageError, match="its own penalty"):
            estimator_for(METHODS[name], ESTIMATORS["sure"])


def test_the_options_of_the_command_line():
    assert list(SHRINKAGES) == ["known-noise", "ridge-at-noise-norm", "sure", "james-stein"]


@pytest.mark.parametrize("privacy", [FULL, LABEL])
@pytest.mark.parametrize("n_phenotypes", [1, 100_000])
def test_private_phenotypes_leave_one_choice(privacy, n_phenotypes):
    promise = Promise(5.0, 1 / 5008**2, privacy)
    method, reason = choose_method(promise, sizes(n_phenotypes))
    assert method.name == "reuse-cov-gauss"
    assert estimator_for(method, None) is ESTIMATORS["known-noise"]
    assert "phenotypes are private" in reason


def test_feature_privacy_projects_from_the_crossover_on():
    """docs/maths/papers.md, item 5: l_Y is about 458 at these sizes."""
    promise = Promise(5.0, 1 / 5008**2, FEATURE)
    assert 5008 * mu_for(5.0, 1 / 5008**2) / 10 == pytest.approx(458, abs=1)
    fewer, reason = choose_method(promise, sizes(450))
    assert fewer.name == "reuse-cov-gauss"
    assert "450 phenotypes are fewer than the 459" in reason
    more, reason = choose_method(promise, sizes(470))
    assert more.name == "reuse-cov-proj-y"
    assert "470 phenotypes are not fewer than the 459" in reason


def test_rows_that_stay_below_their_bound_are_projected_sooner():
    promise = Promise(5.0, 1 / 5008**2, FEATURE)
    assert choose_method(promise, sizes(240, row_norm=100))[0].name == "reuse-cov-proj-y"
    assert choose_method(promise, sizes(220, row_norm=100))[0].name == "reuse-cov-gauss"
    # With a bound below the variance, the filled share of the bound is limited to 1.
    assert choose_method(promise, sizes(450, row_norm=5))[0].name == "reuse-cov-gauss"


def test_a_share_of_the_budget_moves_the_crossover():
    promise = Promise(5.0, 1 / 5008**2, FEATURE, share=0.25)
    assert choose_method(promise, sizes(240))[0].name == "reuse-cov-proj-y"
