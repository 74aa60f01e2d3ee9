"""The statement made of a design, a payment and a solution verifies and discloses no secret."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from release_examples import example_weights, publish

from primo_scale.gaussian.calibration import Cost, release_mu
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
from primo_scale.genotypes.coding import GenotypeCoding, block_row_norms, default_row_norm
from primo_scale.genotypes.genome_build import GenomeBuild
from primo_scale.ledger import spending
from primo_scale.methods.catalogue import METHODS
from primo_scale.methods.estimators import ESTIMATORS
from primo_scale.methods.solution import LatticeWeights, Solution
from primo_scale.outcomes.bounds import CovariateBounds, PhenotypeBounds
from primo_scale.outcomes.coding import code_outcomes
from primo_scale.privacy.clip_response import ClipResponse
from primo_scale.privacy.noise_store import NoisyMoments
from primo_scale.privacy.phenotype_moments import moments_sigma
from primo_scale.publication import recompute_method
from primo_scale.publication.samplers import KEYSTREAM
from primo_scale.publication.verify import verify_release
from primo_scale.run.describe_release import Payment, make_statement
from primo_scale.run.design import Budget, Design, PaidMoments
from primo_scale.run.estimation import Solved
from primo_scale.run.release_forecast import Chosen

EPSILON, DELTA = 5.0, 1e-7
PEOPLE = 48_731  # stands nowhere where it is private
FULL, LABEL, FEATURE = PrivacyUnit.FULL, PrivacyUnit.LABEL, PrivacyUnit.FEATURE
REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE


def make_design(privacy: PrivacyUnit, adjacency: Adjacency, **changes: Any) -> Design:
    d = 7
    genotypes = GenotypeCoding(
        multiplier=np.full(d, 25, np.int16),
        centre=np.full(d, 15, np.int16),
        unit=16,
        variances=np.full(d, 250.0),
        source="a panel",
    )
    outcomes = code_outcomes(
        tuple(PhenotypeBounds(n, -4.0, 4.0, 0.0, 1.0, "quantitative") for n in ("height", "LDL")),
        (CovariateBounds("AGE", 18.0, 99.0, 50.0),),
        weight=0.25,
    )
    boundaries = (0, 3, 7)
    blocks = None if privacy is LABEL else block_row_norms(genotypes, boundaries)
    design = Design(
        n_samples=PEOPLE,
        nominal_n=50_000 if (privacy, adjacency) == (FULL, ADD) else None,
        privacy=privacy,
        adjacency=adjacency,
        subsample=None,
        boundaries=boundaries,
        ld_blocks="window:4",
        genotypes=genotypes,
        outcomes=outcomes,
        reference={"file": "panel.afreq", "sha256": "0" * 64},
        row_norm=default_row_norm(genotypes),
        block_norms=blocks,
        phenotype_norm=500_000,
        moments=None,
        clipped=True,
        genotype_store="/secret/place/genotypes.zarr",
    )
    return dataclasses.replace(design, **changes)


def make_solved(method: str, *, n_penalties: int = 2) -> Solved:
    weights = LatticeWeights(np.zeros((7, 2)), np.zeros((2, 2)))
    chosen = Chosen(METHODS[method], "as given", METHODS[method].estimator)
    names = (*recompute_method.PARAMETERS[chosen.estimator.name],
             *recompute_method.METHODS[method].parameters)  # fmt: skip
    penalties = tuple(range(1, 1 + n_penalties))
    solution = Solution(weights, "a rule", "a floor", dict.fromkeys(names, 2.0), penalties)
    return Solved(chosen, solution, ClipResponse(np.array([0.9, 1 + 1e-15]), np.zeros(2)))


def without_noise(solved: Solved) -> Solved:
    """Return the solution of a ridge, which has no parameters except its penalty."""
    chosen = dataclasses.replace(solved.chosen, estimator=ESTIMATORS["ridge"])
    solution = dataclasses.replace(solved.solution, parameters={})
    return dataclasses.replace(solved, chosen=chosen, solution=solution)


def stated(design: Design, method: str, *, n_penalties: int = 2) -> Any:
    solved = make_solved(method, n_penalties=n_penalties)
    return make_statement(design, solved, make_payment(design, method), genome_build=BUILD)


def make_payment(design: Design, method: str) -> Payment:
    recipe = METHODS[method].recipe(2, design.subsample)
    mechanism = design.mechanism(Budget(EPSILON, DELTA), recipe)
    account = spending.Account("biobank", design.privacy, design.adjacency)
    costs = [Cost(0.25), mechanism.cost]
    if design.moments is not None:
        costs.insert(1, Cost(0.05 * release_mu(EPSILON, DELTA) ** 2))
    charges = tuple(
        spending.Charge(f"{i:016x}", spending.ChargeRequest(account, f"{i}", EPSILON, DELTA, cost))
        for i, cost in enumerate(costs)
    )
    balance = spending.Balance(account, spending.AccountBudget(3 * EPSILON, DELTA), charges)
    return Payment(mechanism, charges[1:], balance, 12.5)


def bought_moments(design: Design) -> PaidMoments:
    budget = Budget(EPSILON, DELTA)
    sigma = moments_sigma(2, design.promise(budget))
    return PaidMoments(NoisyMoments(((0, 0),) * 3, sigma, f"{1:016x}"), budget)


CASES = {
    "full": (FULL, REPLACE, "reuse-cov-gauss"),
    "full-add-remove": (FULL, ADD, "reuse-cov-gauss"),
    "label": (LABEL, REPLACE, "reuse-cov-proj-x"),
    "label-add-remove": (LABEL, ADD, "reuse-cov-gauss"),
    "feature": (FEATURE, REPLACE, "reuse-cov-proj-y"),
    "feature-add-remove": (FEATURE, ADD, "ssp"),
    "naive": (FULL, REPLACE, "naive"),
    "ada-ssp": (FULL, REPLACE, "ada-ssp"),
    "ada-ssp-add-remove": (FULL, ADD, "ada-ssp-budget"),
}


BUILD = GenomeBuild("GRCh38", "--genome-build")


def state(case: str, **changes: Any) -> Any:
    privacy, adjacency, method = CASES[case]
    design = make_design(privacy, adjacency, **changes)
    return stated(design, method, n_penalties=4 if method == "naive" else 2)


def problems(statement: Any, directory: Any) -> list[Any]:
    publish(directory, example_weights(), statement)
    return [finding for finding in verify_release(directory) if not finding.ok]


@pytest.mark.parametrize("case", CASES)
def test_a_statement_of_every_kind_can_be_published_and_verified(case, tmp_path):
    statement = state(case)
    assert problems(statement, tmp_path / "out") == []
    assert statement.guarantee.epsilon == EPSILON
    assert statement.mechanism.method == CASES[case][2]
    assert statement.mechanism.summary == METHODS[CASES[case][2]].summary
    assert statement.ledger.before.cost.mu_squared == 0.25
    hidden = "add-remove" in case and statement.guarantee.privacy == "full"
    assert (statement.cohort.n_samples is None) is hidden
    assert (statement.cohort.nominal_n == 50_000) is hidden


@pytest.mark.parametrize("subsample", [1000, 40_000])
def test_a_subsample_is_stated_and_verified(subsample, tmp_path):
    design = make_design(FULL, REPLACE, subsample=subsample, block_norms=None)
    statement = stated(design, "sub-samp-reuse-cov")
    assert problems(statement, tmp_path / "out") == []
    assert statement.guarantee.cost.delta == DELTA / 2
    assert statement.mechanism.sampler == KEYSTREAM.name


@pytest.mark.parametrize("case", ["full", "label-add-remove"])
def test_paid_moments_are_a_charge_and_a_query_of_their_own(case, tmp_path):
    privacy, adjacency, method = CASES[case]
    design = make_design(privacy, adjacency)
    design = dataclasses.replace(design, moments=bought_moments(design))
    statement = stated(design, method)
    assert problems(statement, tmp_path / "out") == []
    assert statement.mechanism.share == 0.95
    assert any("--pheno-moments" in entry.source for entry in statement.public_inputs.sources)
    assert [charge.id[-1] for charge in statement.ledger.charges] == ["1", "2"]
    assert statement.mechanism.queries[-1].name == "phenotype_moments"


@pytest.mark.parametrize("case", ["full-add-remove", "ada-ssp-add-remove"])
def test_a_private_number_of_people_changes_nothing_in_the_release(case, tmp_path):
    texts = []
    for people in (PEOPLE, PEOPLE + 1):
        statement = state(case, n_samples=people)
        statement = dataclasses.replace(statement, created="2026-11-20")
        assert problems(statement, tmp_path / str(people)) == []
        files = sorted(p for p in (tmp_path / str(people)).rglob("*") if p.is_file())
        texts.append([path.read_bytes() for path in files])
    assert texts[0] == texts[1]
    assert not any(str(PEOPLE).encode() in content for content in texts[0])


def test_nothing_of_the_custodians_own_is_stated():
    text = json.dumps(dataclasses.asdict(state("full")))
    assert "secret" not in text
    account = spending.Account("f" * 64)
    design = make_design(FULL, REPLACE)
    payment = make_payment(design, "reuse-cov-gauss")
    unnamed = dataclasses.replace(payment.balance, account=account)
    payment = dataclasses.replace(payment, balance=unnamed)
    solved = make_solved("reuse-cov-gauss")
    statement = make_statement(design, solved, payment, genome_build=BUILD)
    assert statement.ledger.cohort == "unnamed"
    assert "f" * 12 not in json.dumps(dataclasses.asdict(statement))


def test_sources_tell_defaults_from_options():
    def sources(**changes: Any) -> dict[str, str]:
        listed = state("full", **changes).public_inputs.sources
        return {entry.input: entry.source for entry in listed}

    default = sources()
    assert default["Reference allele frequencies"] == "--ref-freq, a public panel"
    assert default["LD blocks"] == "--ld-blocks"
    assert default["Bound N_x on genotype rows"].startswith("default rule")
    assert default["Bounds of covariates"] == "--covar-bounds"
    assert "Bounds beta_b on rows in LD blocks" in default
    other = sources(row_norm=2_000, reference=None, ld_blocks="one dense block")
    assert other["Bound N_x on genotype rows"] == "--row-norm"
    assert other["Reference allele frequencies"] == other["LD blocks"] == "default"


def test_what_is_not_private_says_so_and_is_not_signed(tmp_path):
    design = make_design(FULL, REPLACE, clipped=False)
    solved = without_noise(make_solved("reuse-cov-gauss"))
    statement = make_statement(design, solved, None, genome_build=BUILD)
    assert problems(statement, tmp_path / "out") == []
    assert statement.stamp.startswith("NOT PRIVATE")
    assert (statement.guarantee, statement.mechanism, statement.ledger) == (None, None, None)
    assert statement.cohort.n_samples == PEOPLE
