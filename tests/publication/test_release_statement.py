"""The statement made of a design, a payment and a solution verifies and discloses no secret."""

import dataclasses
import json

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

from primo_scale.ledger.accounts import Account
from primo_scale.methods.catalogue import METHODS
from primo_scale.publication.publish import statement_document

PEOPLE = 48_731  # stands nowhere where it is private


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
    payment = example_payment(example_mechanism("full", design))
    unnamed = dataclasses.replace(payment.balance, account=Account("f" * 64))
    payment = dataclasses.replace(payment, balance=unnamed)
    statement = state(design, example_solved("full", design), payment)
    assert statement.ledger.cohort == "unnamed"
    text = json.dumps(statement_document(statement))
    assert "secret" in design.genotype_store and "secret" not in text
    assert "f" * 12 not in text
