"""Choice of the method and its rule of shrinkage, from the design and the promise alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

from primo_scale.errors import UsageError
from primo_scale.methods.catalogue import (
    GAMMA_METHOD,
    METHODS,
    Method,
    choose_method,
    estimator_for,
    method_named,
)
from primo_scale.methods.estimators import ESTIMATORS, Estimator
from primo_scale.privacy.mechanism import Promise, Recipe
from primo_scale.run.design import Design
from primo_scale.run.request_parts import Fit

NOT_PRIVATE_METHOD = "reuse-cov-gauss"


@dataclass(frozen=True)
class Chosen:
    """Method of the catalogue, its rule of shrinkage, and the reason for them in words."""

    method: Method
    reason: str
    estimator: Estimator


def choose(design: Design, promise: Promise | None, fit: Fit) -> Chosen:
    """Return the method and its rule of shrinkage; without a promise, statistics have no noise.

    Raises
    ------
    UsageError
        The method is unknown, does not offer this kind of privacy, or allows no choice of rule or
        of gamma.
    """
    if promise is None:
        if fit.shrinkage is not None:
            raise UsageError("without noise there is nothing to shrink", where="--shrinkage")
        return Chosen(METHODS[NOT_PRIVATE_METHOD], "no noise was added", ESTIMATORS["ridge"])
    if fit.method != "auto":
        method, reason = method_named(fit.method, promise.privacy), "as given"
    elif design.subsample is not None:
        method, reason = method_named("sub-samp-reuse-cov", promise.privacy), "--subsample"
    else:
        method, reason = choose_method(promise, design.sizes)
    if fit.gamma is not None:
        if method.name != GAMMA_METHOD:
            raise UsageError(
                f"{method.name} has no share of the budget to set",
                where="--gamma",
                value=fit.gamma,
                remedy=f"Leave it out, or give --method {GAMMA_METHOD}",
            )
        method = replace(method, eigenvalue_share=fit.gamma)
    return Chosen(method, reason, estimator_for(method, fit.estimator))


def recipe_of(design: Design, chosen: Chosen) -> Recipe:
    """Return the recipe of the statistics that the method needs."""
    return chosen.method.recipe(design.layout.n_phenotypes, design.subsample)
