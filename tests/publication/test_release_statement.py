"""The statement made of a design, a payment and a solution verifies and discloses no secret.

`release_examples` makes every example release by the function under test, so that the other tests
of this folder verify a statement of every kind.
"""

import dataclasses
import json

import numpy as np
import pytest
from support.release_edits import problems
from support.release_examples import (
    MODES,
    example_design,
    example_mechanism,
    example_payment,
    example_solved,
    example_statement,
    example_weights,
    publish,
    state,
)
from support.tiers import thinned

from primo_scale.genotypes.coding import GenotypeCoding, block_row_norms, default_row_norm
from primo_scale.ledger.accounts import Account
from primo_scale.methods.catalogue import METHODS
from primo_scale.publication.publish import statement_document
from primo_scale.publication.texts import rests_on_scores
from primo_scale.verify.document import PublicFile
from primo_scale.verify.words import SAMPLER

PEOPLE = 48_731  # stands nowhere where it is private
PANEL = {
    "genotypes": GenotypeCoding(
        multiplier=np.full(7, 25, np.int16),
        centre=np.full(7, 15, np.int16),
        unit=16,
        variances=np.full(7, 250.0),
        source="a panel",
    ),
    "reference": PublicFile("panel.afreq", "0" * 64),
}


@pytest.mark.parametrize(
    ("mode", "method"),
    thinned([
        *((str(unit), name) for name, method in METHODS.items() for unit in method.privacy
          if not method.subsamples),
        *((f"{unit}-add-remove", method) for unit, method in (
            ("full", "reuse-cov-gauss"), ("label", "reuse-cov-gauss"), ("feature", "ssp"),
            ("full", "ada-ssp-budget"))),
        *((mode, "sub-samp-reuse-cov") for mode in ("subsampled", "subsampled-feature")),
    ], every=3),
)  # fmt: skip
def test_every_method_with_its_own_estimator_is_stated_and_verified(
    mode, method, tmp_path, monkeypatch
):
    monkeypatch.setitem(MODES, mode, dataclasses.replace(MODES[mode], method=method))
    estimator = METHODS[method].estimator.name
    statement = example_statement(example_weights(), mode=mode, estimator=estimator)
    assert problems(publish(tmp_path / "out", example_weights(), statement)) == []
    assert (statement.guarantee.epsilon, statement.estimation.estimator) == (5.0, estimator)
    assert (statement.mechanism.method, statement.mechanism.summary) == (
        method,
        METHODS[method].summary,
    )
    hidden = mode == "full-add-remove"
    assert (statement.cohort.n_samples is None) is (statement.cohort.nominal_n == 1000) is hidden


@pytest.mark.parametrize("subsample", [100, 900])
def test_a_subsample_of_a_panels_cohort_is_stated_and_verified(subsample, tmp_path):
    weights = example_weights()
    statement = example_statement(weights, mode="subsampled", subsample=subsample, **PANEL)
    assert problems(publish(tmp_path / "out", weights, statement)) == []
    assert statement.guarantee.cost.delta == statement.guarantee.delta / 2
    assert statement.mechanism.sampler == SAMPLER


@pytest.mark.parametrize("mode", MODES)
def test_an_adjustment_is_a_query_under_the_charge_of_the_statistics(mode, tmp_path):
    statement = example_statement(example_weights(), mode=mode)
    assert statement.mechanism.share == 0.98
    assert statement.guarantee.cost.mu_squared == pytest.approx(statement.guarantee.mu**2)
    queries = {query.name: query for query in statement.mechanism.queries}
    assert queries["adjustment"].shape == (2 * 3, 2 * 3)
    assert problems(publish(tmp_path / "out", example_weights(), statement)) == []


@pytest.mark.parametrize("mode", [mode for mode in MODES if "add-remove" in mode])
def test_a_private_number_of_people_changes_nothing_in_the_release(mode, tmp_path):
    texts = []
    for people in (PEOPLE, PEOPLE + 1):
        statement = example_statement(example_weights(), mode=mode, n_samples=people)
        out = publish(tmp_path / str(people), example_weights(), statement)
        texts.append([path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()])
    hidden = MODES[mode].privacy == "full"
    words = "a private number of people (planned for 1000)"
    assert (words in (out / "README.txt").read_text()) is hidden
    assert (texts[0] == texts[1]) is hidden
    assert any(str(PEOPLE).encode() in content for content in texts[0]) is not hidden


def test_nothing_of_the_custodians_own_is_stated():
    design = example_design()
    payment = example_payment(example_mechanism("full", design), design.paid_adjustment)
    unnamed = dataclasses.replace(payment.balance, account=Account("f" * 64))
    payment = dataclasses.replace(payment, balance=unnamed)
    statement = state(design, example_solved("full", design), payment)
    assert statement.ledger.cohort == "unnamed"
    text = json.dumps(statement_document(statement))
    assert "secret" in design.genotype_store and "secret" not in text
    assert "f" * 12 not in text


def test_sources_tell_defaults_from_options():
    def sources(**changes: object) -> dict[str, str]:
        listed = example_statement(example_weights(), **changes).public_inputs.sources
        return {entry.input: entry.source for entry in listed}

    given = sources()
    assert given["LD blocks"] == "--ld-blocks"
    assert given["Bound N_x on genotype rows"] == "--row-norm"
    assert given["Bounds of covariates"] == "--covar-bounds"
    assert given["Reference allele frequencies"] == "default"
    coding = PANEL["genotypes"]
    norms = {
        "row_norm": default_row_norm(coding),
        "block_norms": block_row_norms(coding, (0, 3, 7)),
    }
    other = sources(ld_blocks="one dense block", **norms, **PANEL)
    assert other["Bound N_x on genotype rows"].startswith("default rule")
    assert other["Reference allele frequencies"] == "--ref-freq, a public panel"
    assert other["LD blocks"] == "default"
    assert "Bounds beta_b on rows in LD blocks" in other


def test_a_choice_of_variants_by_a_score_qualifies_the_accuracy():
    design = example_design()
    payment = example_payment(example_mechanism("full", design), design.paid_adjustment)
    chosen = [
        rests_on_scores(statement_document(state(design, example_solved("full", design), paid)))
        for paid in (payment, dataclasses.replace(payment, chosen_by_score=True))
    ]
    assert chosen == [False, True]
