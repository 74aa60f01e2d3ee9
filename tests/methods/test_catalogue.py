"""The table of methods: what it allows, what each measures, and the automatic choice."""

from dataclasses import replace

import pytest

from primo_scale.errors import UsageError
from primo_scale.gaussian.calibration import mu_for
from primo_scale.gaussian.sensitivity import PrivacyUnit
from primo_scale.methods import catalogue
from primo_scale.privacy.mechanism import Promise
from primo_scale.privacy.planning import PublicSizes

FULL, LABEL, FEATURE = PrivacyUnit.FULL, PrivacyUnit.LABEL, PrivacyUnit.FEATURE


def sizes(n_phenotypes, *, row_norm=25):
    """Rows of 25 variants of variance 1 at n = 5,008: docs/maths/papers.md, item 5."""
    return PublicSizes(
        n_samples=5008,
        n_variants=25,
        n_phenotypes=n_phenotypes,
        largest_block=25,
        row_norm=row_norm,
        variant_variance=1.0,
        phenotype_scale=1024,
    )


@pytest.mark.parametrize(
    ("name", "subsample"), [("sub-samp-reuse-cov", None), ("ssp", 900), ("reuse-cov-gauss", 1)]
)
def test_a_subsample_belongs_to_one_method(name, subsample):
    with pytest.raises(UsageError, match=r"subsample|everybody"):
        catalogue.METHODS[name].recipe(7, subsample)


def test_unknown_and_unsupported_methods_are_refused_with_alternatives():
    assert catalogue.method_named("ssp", FEATURE) is catalogue.METHODS["ssp"]
    with pytest.raises(UsageError) as refused:
        catalogue.method_named("lasso", FULL)
    assert "reuse-cov-proj-x" in str(refused.value)
    with pytest.raises(UsageError) as refused:
        catalogue.method_named("ssp", LABEL)
    assert "reuse-cov-proj-x" in str(refused.value)
    assert "reuse-cov-proj-y" not in str(refused.value)


def test_shrinkage_can_be_chosen_only_where_the_method_leaves_it_open():
    gauss = catalogue.METHODS["reuse-cov-gauss"]
    assert catalogue.estimator_for(gauss, None) is catalogue.ESTIMATORS["effect-variances"]
    for chosen in map(catalogue.ESTIMATORS.__getitem__, (*catalogue.SHRINKAGES, "ridge")):
        assert catalogue.estimator_for(gauss, chosen) is chosen
    for name in ("ssp", "ada-ssp", "const-ssp-full", "reuse-cov-proj", "reuse-cov-proj-x"):
        assert not catalogue.estimator_for(catalogue.METHODS[name], None).is_choice
        with pytest.raises(UsageError, match="its own penalty"):
            catalogue.estimator_for(catalogue.METHODS[name], catalogue.ESTIMATORS["known-noise"])


@pytest.mark.parametrize("privacy", [FULL, LABEL])
@pytest.mark.parametrize("n_phenotypes", [1, 100_000])
def test_private_phenotypes_leave_one_choice(privacy, n_phenotypes):
    promise = Promise(5.0, 1 / 5008**2, privacy)
    method, reason = catalogue.choose_method(promise, sizes(n_phenotypes))
    assert method.name == "reuse-cov-gauss"
    assert catalogue.estimator_for(method, None) is catalogue.ESTIMATORS["effect-variances"]
    assert "phenotypes are private" in reason


def test_feature_privacy_projects_from_the_crossover_on():
    """docs/maths/papers.md, item 5: l_Y is about 458 at these sizes."""
    adjusted = Promise(5.0, 1 / 5008**2, FEATURE)
    promise = replace(adjusted, phenotypes_are_public=True)
    assert catalogue.choose_method(adjusted, sizes(10_000))[0].name == "reuse-cov-gauss"
    assert 5008 * mu_for(5.0, 1 / 5008**2) / 10 == pytest.approx(458, abs=1)
    fewer, reason = catalogue.choose_method(promise, sizes(450))
    assert fewer.name == "reuse-cov-gauss"
    assert "450 phenotypes are fewer than the 459" in reason
    more, reason = catalogue.choose_method(promise, sizes(470))
    assert more.name == "reuse-cov-proj-y"
    assert "470 phenotypes are not fewer than the 459" in reason
