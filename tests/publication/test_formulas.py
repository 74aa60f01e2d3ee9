"""Nothing in a table of a release is a formula to a spreadsheet."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from release_examples import example_variants, example_weights

from primo_scale.errors import InputError
from primo_scale.publication.formulas import refuse_formulas
from primo_scale.publication.weights import check_releasable


def columns(**changed):
    return {"phenotypes": ["height"], "covariates": ["AGE"], **changed}


@pytest.mark.parametrize("first", ["=", "+", "-", "@"])
@pytest.mark.parametrize("column", ["phenotypes", "covariates"])
def test_a_column_that_is_a_formula_is_refused(column, first) -> None:
    name = f"{first}cmd"
    with pytest.raises(InputError, match=r"name begins with =, \+, - or @.*Rename the column"):
        refuse_formulas(example_variants(), **columns(**{column: ["LDL", name]}))


@pytest.mark.parametrize("column", ["identifier", "allele1", "allele2", "chromosome"])
def test_a_variant_that_is_a_formula_is_refused(column) -> None:
    variants = example_variants()
    values = getattr(variants, column).copy()
    values[-1] = "=1+1"
    changed = dataclasses.replace(variants, **{column: values})
    with pytest.raises(InputError, match=r"spreadsheets execute as a formula \(got '=1\+1'\)"):
        refuse_formulas(changed, **columns())
    with pytest.raises(InputError, match="spreadsheets execute as a formula"):
        check_releasable(dataclasses.replace(example_weights(), variants=changed))


def test_an_absent_allele_and_a_sign_within_a_name_are_text() -> None:
    variants = example_variants()
    absent = np.array(["-"] * len(variants), dtype=object)
    ids = np.array([f"1:{k}:A:-" for k in range(len(variants))], dtype=object)
    changed = dataclasses.replace(variants, allele2=absent, identifier=ids)
    refuse_formulas(changed, phenotypes=["HDL-C", "a=b"], covariates=["age@visit"])
