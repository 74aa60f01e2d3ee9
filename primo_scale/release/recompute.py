"""The guarantee of a release, computed again from release.json alone.

Shares no code with what calibrated the noise: only the standard library and SciPy. The claims
checked are those of docs/maths.md, sections 1, 2 and "Noise on the lattice".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scipy.optimize import brentq
from scipy.special import erfcx, log_ndtr

Document = Mapping[str, Any]

# Every sigma is rounded up and mu down by parts in 1e12 or less; these are wider than the
# rounding and far narrower than any change that would matter.
_SIGMA_TOLERANCE = 1e-12
_MU_TOLERANCE = 1e-9
# Noise is calibrated to (1 - 1e-6) epsilon, to leave room for the lattice.
_EPSILON_TOLERANCE = 1e-5
_FINEST_SIGMA = 2.0**58  # in fine lattice steps: the sampler's 64-bit integers end soon after
_COARSEST_SIGMA = 2.0**32  # the bound on what the lattice costs is stated from here on
_ERFCX_OVERFLOWS = 26.0
_HOPELESS_MU = 1e6  # epsilon is above 10^11


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    ok: bool
    check: str
    detail: str


def log_delta(epsilon: float, mu: float) -> float:
    """Logarithm of the exact privacy profile of the Gaussian mechanism.

    ``delta = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)`` (Balle and Wang 2018),
    in a form without cancellation of the exponents; docs/maths.md, section 1.
    """
    if mu == 0:
        return -math.inf
    upper = (epsilon / mu - mu / 2) / math.sqrt(2)
    lower = (epsilon / mu + mu / 2) / math.sqrt(2)
    if upper < -_ERFCX_OVERFLOWS:
        return math.log1p(-math.exp(log_ndtr(upper * math.sqrt(2))) - _tail(epsilon, lower))
    difference = float(erfcx(upper) - erfcx(lower))
    if difference <= 0:
        return -math.inf
    return math.log(difference / 2) - upper * upper


def epsilon_of(mu: float, delta: float) -> float:
    """Least epsilon at which mu-Gaussian privacy gives (epsilon, delta)-privacy."""
    target = math.log(delta)
    if mu > _HOPELESS_MU:
        return math.inf
    if log_delta(0.0, mu) <= target:
        return 0.0
    high = max(1.0, mu * mu)
    while log_delta(high, mu) > target:
        high *= 2
    return float(brentq(lambda epsilon: log_delta(epsilon, mu) - target, 0.0, high, xtol=1e-300))


def guarantee_findings(document: Document) -> list[Finding]:
    """Check every number that the promise of a private release rests on.

    Parameters
    ----------
    document
        A release.json that follows its schema and claims to be private.

    Returns
    -------
    list of Finding
        Only the first if the queries are not those of the mechanism, for then no formula applies.
    """
    queries = _check_queries(document)
    if not queries.ok:
        return [queries]
    return [
        queries,
        _check_norms(document),
        _check_sensitivities(document),
        _check_noise_ratios(document),
        _check_mu(document),
        _check_epsilon(document),
        _check_lattice(document),
        _check_ledger(document),
    ]


def _check_queries(document: Document) -> Finding:
    cohort = document["cohort"]
    variants, phenotypes = cohort["n_variants"], cohort["n_phenotypes"]
    outcomes = 1 + cohort["n_covariates"] + phenotypes
    expected = {
        "gram": ("svec", [variants, variants]),
        "cross": ("full", [variants, outcomes]),
        "outcome_gram": ("svec", [outcomes, outcomes]),
        "observed": ("full", [phenotypes]),
    }
    queries = document["mechanism"]["queries"]
    names = [query["name"] for query in queries]
    problems = [f"{name} is missing" for name in ("gram", "cross", "outcome_gram")
                if name not in names]  # fmt: skip
    if len(set(names)) != len(names):
        problems.append("a query stands twice")
    problems += [
        f"{query['name']} is {query['layout']} {query['shape']}, not {expected[query['name']]}"
        for query in queries
        if (query["layout"], query["shape"]) != expected[query["name"]]
    ]
    if sum(cohort["block_sizes"]) != variants:
        problems.append("the LD blocks do not add up to the variants")
    return _finding("queries", problems, f"{len(queries)} noisy statistics of the stated shapes")


def _check_norms(document: Document) -> Finding:
    mechanism = document["mechanism"]
    total = mechanism["outcome_norm_squared"]
    parts = mechanism["constant_and_covariates_norm_squared"] + mechanism["phenotypes_norm_squared"]
    problems = [] if total == parts else [f"N_z is {total}, its parts add up to {parts}"]
    return _finding(
        "row norms", problems, f"N_x = {mechanism['row_norm_squared']}, N_z = {total} = N_c + N_y"
    )


def _check_sensitivities(document: Document) -> Finding:
    mechanism = document["mechanism"]
    row, outcome = mechanism["row_norm_squared"], mechanism["outcome_norm_squared"]
    expected = {
        "gram": math.sqrt(2) * row,
        "cross": 2 * math.sqrt(row) * math.sqrt(outcome),
        "outcome_gram": math.sqrt(2) * outcome,
        "observed": math.sqrt(document["cohort"]["n_phenotypes"]),
    }
    problems = [
        f"{query['name']} has {expected[query['name']]:.12g}, not {query['sensitivity']:.12g}"
        for query in mechanism["queries"]
        if not _close(query["sensitivity"], expected[query["name"]])
    ]
    joint = _joint_sensitivity(mechanism)
    if not _close(mechanism["joint_sensitivity"], joint):
        problems.append(f"joint is {joint:.12g}, not {mechanism['joint_sensitivity']:.12g}")
    return _finding("sensitivities", problems, f"joint {joint:.12g} in units of gram")


def _check_noise_ratios(document: Document) -> Finding:
    mechanism = document["mechanism"]
    sigma = {query["name"]: query["sigma"] for query in mechanism["queries"]}
    k_squared = _k_squared(mechanism)
    least = {
        "cross": sigma["gram"] / math.sqrt(2 * k_squared),
        "outcome_gram": sigma["gram"] / k_squared,
    }
    problems = [
        f"{name} has {sigma[name]:.12g}, needs {needed:.12g}"
        for name, needed in least.items()
        if sigma[name] < needed * (1 - _SIGMA_TOLERANCE)
    ]
    for query in mechanism["queries"]:
        off_diagonal = query["off_diagonal_sigma"]
        needed = query["sigma"] / math.sqrt(2)
        if off_diagonal is not None and off_diagonal < needed * (1 - _SIGMA_TOLERANCE):
            problems.append(f"{query['name']} off the diagonal has {off_diagonal:.12g}, "
                            f"needs {needed:.12g}")  # fmt: skip
    listing = ", ".join(f"{name} {value:.6g}" for name, value in sigma.items())
    return _finding("noise", problems, f"sigma of {listing}")


def _check_mu(document: Document) -> Finding:
    mechanism, stated = document["mechanism"], document["guarantee"]["mu"]
    counts = _mu_squared_of_counts(document)
    mu = math.sqrt(_mu_squared_of_main(mechanism) + counts)
    problems = [] if _close(mu, stated) else [f"recomputed {mu:.15g}, stated {stated:.15g}"]
    share = counts / mu**2
    if not math.isclose(share, mechanism["counts_share"], rel_tol=1e-6, abs_tol=1e-12):
        problems.append(f"counts have {share:.9g} of mu^2, stated {mechanism['counts_share']:.9g}")
    return _finding("mu", problems, f"recomputed {mu:.12g}")


def _check_epsilon(document: Document) -> Finding:
    guarantee = document["guarantee"]
    epsilon, delta = guarantee["epsilon"], guarantee["delta"]
    mu = math.sqrt(_mu_squared_of_main(document["mechanism"]) + _mu_squared_of_counts(document))
    attained = _log_delta_with_lattice(document, epsilon, mu)
    least = epsilon_of(mu, delta)
    problems = []
    if attained > math.log(delta):
        problems.append(f"delta at epsilon {epsilon:.9g} is {math.exp(attained):.9g}, not {delta}")
    elif least < epsilon * (1 - _EPSILON_TOLERANCE):
        problems.append(f"the noise is for epsilon {least:.9g}, not the stated {epsilon:.9g}")
    return _finding("epsilon", problems, f"recomputed {least:.9g} at delta {delta:.6g}")


def _check_lattice(document: Document) -> Finding:
    steps = [
        sigma * 2.0 ** query["fine_bits"]
        for query in document["mechanism"]["queries"]
        for sigma in (query["sigma"], query["off_diagonal_sigma"])
        if sigma is not None
    ]
    problems = []
    if min(steps) < _COARSEST_SIGMA:
        problems.append(f"sigma is only {min(steps):.6g} steps of the noise lattice, needs 2^32")
    if max(steps) > _FINEST_SIGMA:
        problems.append(f"sigma is {max(steps):.6g} steps of the noise lattice, limit 2^58")
    return _finding("noise lattice", problems, f"sigma is {min(steps):.3g} steps or more")


def _check_ledger(document: Document) -> Finding:
    ledger, mu = document["ledger"], document["guarantee"]["mu"]
    before, after = ledger["mu_squared_before"], ledger["mu_squared_after"]
    budget = ledger["mu_squared_budget"]
    problems = []
    if not math.isclose(after, before + mu * mu, rel_tol=_MU_TOLERANCE):
        problems.append(f"mu^2 rose from {before:.9g} to {after:.9g}, the release cost {mu**2:.9g}")
    if after > budget * (1 + _MU_TOLERANCE):
        problems.append(f"mu^2 of {after:.9g} is over the budget of {budget:.9g}")
    for name in ("before", "after", "budget"):
        epsilon = epsilon_of(math.sqrt(ledger[f"mu_squared_{name}"]), ledger["delta"])
        stated = ledger[f"epsilon_{name}"]
        if not math.isclose(epsilon, stated, rel_tol=_EPSILON_TOLERANCE, abs_tol=1e-12):
            problems.append(f"epsilon {name} is {epsilon:.9g}, stated {stated:.9g}")
    return _finding(
        "ledger",
        problems,
        f"epsilon {ledger['epsilon_after']:.6g} of {ledger['epsilon_budget']:.6g} spent after "
        f"this release, at delta {ledger['delta']:.6g}",
    )


def _k_squared(mechanism: Document) -> float:
    ratio: float = mechanism["row_norm_squared"] / mechanism["outcome_norm_squared"]
    return float(mechanism["split"]) * ratio / 2


def _joint_sensitivity(mechanism: Document) -> float:
    row, outcome = mechanism["row_norm_squared"], mechanism["outcome_norm_squared"]
    return math.sqrt(2) * float(row + _k_squared(mechanism) * outcome)


def _mu_squared_of_main(mechanism: Document) -> float:
    sigma = next(q["sigma"] for q in mechanism["queries"] if q["name"] == "gram")
    return (_joint_sensitivity(mechanism) / float(sigma)) ** 2


def _mu_squared_of_counts(document: Document) -> float:
    n_phenotypes = document["cohort"]["n_phenotypes"]
    sigmas = [q["sigma"] for q in document["mechanism"]["queries"] if q["name"] == "observed"]
    return sum(float(n_phenotypes) / float(sigma) ** 2 for sigma in sigmas)


def _log_delta_with_lattice(document: Document, epsilon: float, mu: float) -> float:
    """Log of delta at `epsilon`, paying for noise that lives on a lattice.

    "Noise on the lattice", item 3: m draws at sigma/h or finer cost eta + eta' of epsilon, a
    factor e^eta of delta, and an event of probability e^-a, where a is free to choose.
    """
    cohort, steps = document["cohort"], math.inf
    draws = 0
    for query in document["mechanism"]["queries"]:
        if query["name"] == "gram":
            draws += sum(size * (size + 1) // 2 for size in cohort["block_sizes"])
        elif query["layout"] == "svec":
            draws += query["shape"][0] * (query["shape"][0] + 1) // 2
        else:
            draws += math.prod(query["shape"])
        least = query["off_diagonal_sigma"] or query["sigma"]
        steps = min(steps, min(least, query["sigma"]) * 2.0 ** query["fine_bits"])
    eta = draws / (24 * steps**2)
    rare = epsilon + 50 - math.log(document["guarantee"]["delta"])
    other_way = eta * (1 + 2 * math.sqrt(rare / draws) + 2 * rare / draws)
    left = epsilon - eta - other_way
    if left <= 0:
        return math.inf
    profile = log_delta(left, mu)
    return eta + max(profile, left - rare) + math.log1p(math.exp(-abs(profile - left + rare)))


def _tail(epsilon: float, lower: float) -> float:
    return math.exp(epsilon + float(log_ndtr(-lower * math.sqrt(2))))


def _close(found: float, expected: float) -> bool:
    return math.isclose(found, expected, rel_tol=_MU_TOLERANCE)


def _finding(check: str, problems: list[str], detail: str) -> Finding:
    return Finding(not problems, check, "; ".join(problems) or detail)
