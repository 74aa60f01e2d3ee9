"""Registries: every registered name keeps its protocol, and toy extensions work end to end."""

import math
from dataclasses import replace

import pytest

from primo_scale.gaussian.calibration import release_mu
from primo_scale.methods.catalogue import ESTIMATORS, METHODS
from primo_scale.privacy import mechanism as mechanism_module
from primo_scale.privacy.mechanism import (
    CALIBRATIONS,
    NoiseScales,
    Promise,
    PublicBounds,
    Recipe,
    calibrate,
    release_cost,
    stacked,
)
from primo_scale.privacy.payment import adjustment_sigma
from primo_scale.run.design import ChosenMethod, PaidAdjustment
from primo_scale.run.publishing import state_mechanism
from primo_scale.verify import theorems
from primo_scale.verify.document import statement_members

BOUNDS = PublicBounds(100, None, 2000, (3, 4), 1000, 2)
PROMISE = Promise(1.0, 1e-6)


def half_stacked(bounds: PublicBounds, promise: Promise, mu: float, split: float) -> NoiseScales:
    return stacked(bounds, promise, mu, 2.0)


def half_stacked_shift(claims: theorems.Claims) -> float:
    _, shift, _ = theorems.THEOREMS["stacked"]
    return shift(replace(claims, split=2.0))


def test_both_tables_have_the_same_calibrations_in_one_order() -> None:
    """The first that applies is used, so the order matters."""
    ours = {name: splits for name, (_, _, splits) in CALIBRATIONS.items()}
    theirs = {name: splits for name, (_, _, splits) in theorems.THEOREMS.items()}
    assert list(ours.items()) == list(theirs.items())


def test_a_toy_calibration_is_drawn_stated_and_recomputed(monkeypatch: pytest.MonkeyPatch) -> None:
    """X'X and X'Z share the shift at a fixed split of 2, whatever split is asked for."""
    ours = (lambda *_: True, half_stacked, False)
    theirs = (lambda _: True, half_stacked_shift, False)
    monkeypatch.setattr(mechanism_module, "CALIBRATIONS", {"half": ours, **CALIBRATIONS})
    monkeypatch.setattr(theorems, "THEOREMS", {"half": theirs, **theorems.THEOREMS})
    mechanism = calibrate(BOUNDS, replace(PROMISE, share=0.98), Recipe(), split=0.7)
    chosen = ChosenMethod(METHODS["reuse-cov-gauss"], "as given", ESTIMATORS["ridge"])
    promise = replace(PROMISE, share=0.98)
    sigma = adjustment_sigma(100, promise.adjacency, release_cost(promise, None))
    paid = PaidAdjustment("1" * 16, sigma, 100, "", ())
    stated = statement_members(state_mechanism(mechanism, chosen, paid, n_fixed=1))
    claims = theorems.claims_of(
        {
            "cohort": {
                "block_sizes": [3, 4], "n_variants": 7, "n_phenotypes": 2, "n_covariates": 0,
                "n_samples": 1000, "component_sizes": None,
            },
            "hold_out": None,
            "mechanism": stated,
            "guarantee": {"privacy": "full", "adjacency": "replace-one"},
            "public_inputs": {"panel_populations": None},
        }
    )  # fmt: skip
    assert (stated["calibration"], stated["split"]) == ("half", None)
    assert theorems.calibration_of(claims) == "half"
    found = theorems.joint_shift(claims) + theorems.squared_ratio(claims, "observed")
    assert math.isclose(found, mechanism.cost.mu_squared, rel_tol=1e-9)
    found += theorems.squared_ratio(claims, "adjustment")
    assert math.isclose(found, release_mu(1.0, 1e-6) ** 2, rel_tol=1e-9)
