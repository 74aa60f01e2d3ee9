"""The guarantee of a release, recomputed from the numbers in release.json alone.

The module shares no code with the calibration of the noise. It checks the theorems of docs/maths:
every statistic has noise, noise and epsilon are those of `primo_scale.verify.theorems`, and the
ledger entry adds up. Tables describe the methods, so that a release with the name of a method but
other properties is detected.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from primo_scale.verify import held_out_accuracy, theorems
from primo_scale.verify.document import Document
from primo_scale.verify.finding import Finding, finding_of
from primo_scale.verify.theorems import Claims, Lattice, differences, epsilon_of

_SHARE_TOLERANCE = 1e-6


def guarantee_findings(document: Document) -> list[Finding]:
    """Check every number from which the guarantee of a private release follows.

    The document is valid under its schema. The checks end after the first two if these fail,
    because no theorem applies to an unknown mechanism.
    """
    claims = theorems.claims_of(document)
    structure = [_check_queries(document, claims), _check_mechanism(document, claims)]
    if not all(finding.ok for finding in structure):
        return structure
    counts = theorems.squared_ratio(claims, "observed")
    eigenvalue = theorems.squared_ratio(claims, "smallest_eigenvalue")
    statistics = theorems.joint_shift(claims) + counts + eigenvalue
    adjustment = theorems.squared_ratio(claims, "adjustment")
    total = statistics + adjustment + theorems.squared_ratio(claims, "second_round")
    shares = {
        "counts_share": counts / statistics,
        "eigenvalue_share": eigenvalue / statistics,
        "share": statistics / total,
    }
    lattice = _draws(document), min(_steps(document))
    return [
        *structure,
        finding_of(
            "method", method_problems(document), f"{document['mechanism']['method']}, as documented"
        ),
        _check_sensitivities(document, claims),
        _check_lattice(document, lattice),
        check_mu(document["guarantee"], total),
        _check_shares(document, claims, shares),
        check_epsilon(
            document["guarantee"],
            math.sqrt(total),
            lattice,
            _amplification_problems(document, claims, lattice),
        ),
        check_ledger(document),
        *([_check_hold_out(document, claims, total)] if document["hold_out"] else []),
    ]


def _check_queries(document: Document, claims: Claims) -> Finding:
    """Check that every statistic has noise, except those assumed to be public."""
    mechanism = document["mechanism"]
    public = claims.public_parts
    problems = []
    if sorted(mechanism["exact_parts"]) != sorted(public):
        stated = ", ".join(mechanism["exact_parts"]) or "none"
        problems.append(
            f"without noise are {stated}; only {', '.join(public) or 'none'} are public"
        )
    names = [query["name"] for query in mechanism["queries"]]
    needed = [name for name in (*theorems.PARTS, "adjustment") if name not in public]
    needed += ["smallest_eigenvalue"] if mechanism["eigenvalue_share"] > 0 else []
    needed += ["second_round"] if mechanism["second_round"] else []
    needed += theorems.HELD_OUT if document["hold_out"] else []
    problems += [f"{name} is missing" for name in needed if name not in names]
    problems += [f"{name} does not belong here" for name in names if name not in needed]
    if len(set(names)) != len(names):
        problems.append("a query is repeated")
    for query in mechanism["queries"]:
        name = query["name"]
        if name not in needed:
            continue
        if query["shape"] != claims.shapes[name]:
            problems.append(f"{name} has the shape {query['shape']}, not {claims.shapes[name]}")
        if (query["off_diagonal_sigma"] is not None) != (name in theorems.SYMMETRIC):
            problems.append(f"{name} has no noise off its diagonal, or too much")
        count = len(claims.block_bounds) if name == "gram" else 1
        lists = ("sensitivity", "sigma", "off_diagonal_sigma", "fine_bits")
        if any(query[each] is not None and len(query[each]) != count for each in lists):
            problems.append(f"{name} does not have {count} of each number")
    return finding_of("queries", problems, f"{len(names)} noisy statistics of the stated shapes")


def _check_mechanism(document: Document, claims: Claims) -> Finding:
    """Check that the values that select the theorem are consistent."""
    mechanism, cohort = document["mechanism"], document["cohort"]
    calibration = theorems.calibration_of(claims)
    problems = []
    if mechanism["calibration"] != calibration:
        problems.append(f"calibration {mechanism['calibration']} is stated, {calibration} applies")
    hides_people = claims.privacy == "full" and not claims.replace
    if (claims.people is None, cohort["nominal_n"] is not None) != (hides_people, hides_people):
        problems.append("the number of people must be private, with a nominal number, if and "
                        "only if whole rows are added or removed")  # fmt: skip
    columns = theorems.column_counts(document)
    if len(columns) != len(cohort["block_sizes"]):
        problems.append(f"{len(columns)} LD blocks have components, not all of them")
    elif any(m > d for m, d in zip(columns, cohort["block_sizes"], strict=True)):
        problems.append("an LD block has more components than variants")
    if claims.blocks is not None and len(claims.blocks) != len(cohort["block_sizes"]):
        problems.append(f"{len(claims.blocks)} block norms, not {len(cohort['block_sizes'])}")
    _, _, splits = theorems.THEOREMS[calibration]
    if claims.blocks is not None and not splits:
        problems.append(f"the calibration {calibration} does not use block norms")
    if (claims.split is not None) != splits:
        problems.append(f"split {claims.split} in the calibration {calibration}")
    if claims.privacy == "label" and (claims.subsample, claims.copies) != (None, 1):
        problems.append("X'X is public and must have no subsample and one copy")
    if calibration == "subsampled":
        if not claims.replace:
            problems.append("amplification is proved only for replace-one")
        if claims.people is None or not 1 <= (claims.subsample or 0) < claims.people:
            problems.append(f"a subsample of {claims.subsample} among {claims.people}")
        if any(claims.second):
            problems.append("no theorem covers a second round beside a subsample")
        if mechanism["eigenvalue_share"] > 0:
            problems.append("no theorem covers the smallest eigenvalue of a subsample")
    return finding_of(
        "mechanism", problems, f"{calibration}, N_x = {claims.row}, N_y = {claims.phenotype}"
    )


def _check_sensitivities(document: Document, claims: Claims) -> Finding:
    numbers: list[tuple[str, float, float]] = []
    for query in document["mechanism"]["queries"]:
        pairs = zip(theorems.sensitivity(claims, query["name"]), query["sensitivity"], strict=True)
        numbers += ((query["name"], *pair) for pair in pairs)
    detail = "as the norms imply, of each statistic alone"
    return finding_of("sensitivities", differences(numbers), detail)


def _check_lattice(document: Document, lattice: Lattice) -> Finding:
    steps, problems = _steps(document), []
    if min(steps) < theorems.COARSEST_SIGMA:
        problems.append(f"sigma is only {min(steps):.6g} steps of the noise lattice, needs 2^32")
    if max(steps) > theorems.FINEST_SIGMA:
        problems.append(f"sigma is {max(steps):.6g} steps of the noise lattice, limit 2^58")
    detail = f"{lattice[0]} draws, sigma is {min(steps):.3g} steps or more"
    return finding_of("noise lattice", problems, detail)


def _check_shares(document: Document, claims: Claims, found: dict[str, float]) -> Finding:
    split = theorems.implied_split(claims)
    detail = "counts {counts_share:.3g}, eigenvalue {eigenvalue_share:.3g} of mu^2".format(**found)
    found = found if split is None else {**found, "split": split}
    numbers = [(name, value, document["mechanism"][name]) for name, value in found.items()]
    return finding_of("shares", differences(numbers, _SHARE_TOLERANCE, 1e-12), detail)


def _check_hold_out(document: Document, claims: Claims, total: float) -> Finding:
    """Check that people held out have as much noise as the others, and which are the others.

    The two groups are disjoint, so that no mu^2 is added (docs/maths/hold-out.md, Theorem 1).
    """
    found = sum(theorems.squared_ratio(claims, name) for name in theorems.HELD_OUT)
    problems = differences([("mu^2 of the people held out", found, total)])
    if not claims.replace or claims.subsample is not None:
        problems.append("no theorem covers people held out of such a release")
    if claims.people is None or claims.people < 1:
        problems.append("nobody is left for the statistics")
    problems += _hold_out_problems(document)
    people = document["hold_out"]["people"]
    return finding_of("hold-out", problems, f"{people} people, with noise for the same mu")


def check_mu(guarantee: Document, mu_squared: float) -> Finding:
    """Check mu and the cost of the Gaussian part."""
    mu, cost = math.sqrt(mu_squared), guarantee["cost"]["mu_squared"]
    numbers = [("mu", mu, guarantee["mu"]), ("mu^2", mu_squared, cost)]
    return finding_of("mu", differences(numbers), f"recomputed {mu:.12g}")


def check_epsilon(
    guarantee: Document, mu: float, lattice: Lattice, cost_problems: Sequence[str] = ()
) -> Finding:
    """Check ``eps(mu, delta - delta_j) + eps_j``, with the lattice, as upper and lower bound.

    The finding repeats `cost_problems`, those of the separate cost (eps_j, delta_j).
    """
    problems, beside = list(cost_problems), guarantee["cost"]
    if lattice[0] > theorems.MOST_DRAWS:
        problems.append(
            f"{lattice[0]} noisy values, more than the {theorems.MOST_DRAWS:g} of the proof"
        )
    epsilon, delta = guarantee["epsilon"], guarantee["delta"]
    left, delta_left = epsilon - beside["epsilon"], delta - beside["delta"]
    if left <= 0 or delta_left <= 0:
        problems.append("the subsampled part costs all of epsilon or delta")
        return finding_of("epsilon", problems, "")
    least = epsilon_of(mu, delta_left)
    attained = theorems.log_delta_on_lattice(left, mu, delta_left, lattice)
    if attained > math.log(delta_left):
        problems.append(f"delta at epsilon {epsilon:.9g} is above the stated {delta:.9g}")
    elif least < left * (1 - theorems.EPSILON_TOLERANCE):
        problems.append(
            f"the noise corresponds to epsilon {least + beside['epsilon']:.9g}, not {epsilon}"
        )
    recomputed = least + beside["epsilon"]
    return finding_of("epsilon", problems, f"recomputed {recomputed:.9g} at delta {delta:.6g}")


def _amplification_problems(document: Document, claims: Claims, lattice: Lattice) -> list[str]:
    """Check the cost of X'X of a subsample of s among n people.

    ``eps_j = log(1 + (s/n)(e^eps_1 - 1))`` and ``delta_j = (s/n) delta_1``.
    """
    stated = document["guarantee"]["cost"]
    epsilon, delta = stated["epsilon"], stated["delta"]
    if claims.subsample is None or claims.people is None:
        nothing = epsilon == delta == 0
        return [] if nothing else ["only a subsample has a separate cost (epsilon, delta)"]
    fraction = claims.subsample / claims.people
    if epsilon <= 0 or not 0 < delta < fraction:
        return [f"X'X of the subsample costs ({epsilon:.9g}, {delta:.9g})"]
    mu = math.sqrt(theorems.subsample_shift(claims))
    inner_delta = delta / fraction
    # log(1 + (e^epsilon - 1)/fraction) without overflow of e^epsilon
    inner_epsilon = epsilon + math.log1p((1 / fraction - 1) * -math.expm1(-epsilon))
    if theorems.log_delta_on_lattice(inner_epsilon, mu, inner_delta, lattice) > math.log(
        inner_delta
    ):
        return [f"X'X of the subsample costs more than ({epsilon:.9g}, {delta:.9g})"]
    if epsilon_of(mu, inner_delta) < inner_epsilon * (1 - theorems.EPSILON_TOLERANCE):
        return [f"X'X of the subsample costs less than ({epsilon:.9g}, {delta:.9g})"]
    return []


def _draws(document: Document) -> int:
    """Return the number of noisy values in the release."""
    draws = 0
    for query in document["mechanism"]["queries"]:
        sizes, copies = [query["shape"][0]], 1  # of symmetric matrices
        if query["name"] == "gram":
            sizes = list(theorems.column_counts(document))
            copies = document["mechanism"]["gram_copies"]
        elif query["name"] == "adjustment":
            copies = document["cohort"]["n_phenotypes"]
            sizes = [sizes[0] // copies]
        if query["name"] == "held_out_gram":
            draws += 2 * query["shape"][0]  # six numbers for each phenotype
        elif query["off_diagonal_sigma"] is None:
            draws += math.prod(query["shape"])
        else:
            draws += copies * sum(size * (size + 1) // 2 for size in sizes)
    return draws


def _steps(document: Document) -> list[float]:
    """Return every sigma in steps of its noise lattice."""
    return [
        sigma * 2.0**bits
        for query in document["mechanism"]["queries"]
        for sigmas in (query["sigma"], query["off_diagonal_sigma"])
        if sigmas is not None
        for sigma, bits in zip(sigmas, query["fine_bits"], strict=True)
    ]


def _hold_out_problems(document: Document) -> Iterator[str]:
    """Yield the contradictions of the measurement, whose noise is checked apart."""
    hold_out, public = document["hold_out"], document["public_inputs"]
    noise = {query["name"]: query["sigma"][0] for query in document["mechanism"]["queries"]}
    sigma = noise["held_out_counts"], noise["held_out_gram"]
    names = [phenotype["name"] for phenotype in public["phenotypes"]]
    measured = [phenotype["name"] for phenotype in hold_out["phenotypes"]]
    if measured != names:
        yield f"measures {len(measured)} phenotypes, not those of public_inputs in their order"
        return
    groups = theorems.held_out_groups(document)
    for stated, phenotype in zip(hold_out["phenotypes"], public["phenotypes"], strict=True):
        name = stated["name"]
        sizes = len(stated["counts"]), len(stated["sums"])
        if sizes != (held_out_accuracy.N_COUNTS, held_out_accuracy.N_SUMS * (len(groups) or 1)):
            yield f"{name}: {sizes[0]} counts and {sizes[1]} sums, of {len(groups) or 1} groups"
            continue
        found = held_out_accuracy.accuracy_of(phenotype, stated, hold_out, sigma, groups)
        for member, value in found.items():
            if not theorems.is_about(stated[member], value):
                yield f"{name}: {member} is {stated[member]}, recomputed {value}"
        if stated["calibration"] not in (1.0, held_out_accuracy.decisive(stated)["slope"]):
            yield f"{name}: the weights were multiplied by another number than the slope"


# ---- The entry of the ledger -------------------------------------------------------------------


def check_ledger(document: Document) -> Finding:
    """Check the account's epsilon before and after the cost of a release, and its budget."""
    ledger, guarantee = document["ledger"], document["guarantee"]
    before, cost, delta = ledger["before"], guarantee["cost"], guarantee["delta"]
    after = {name: before[name] + cost[name] for name in cost}
    limit, spent = ledger["budget_epsilon"], _epsilon(after, delta)
    budget = epsilon_of(math.sqrt(ledger["budget_mu_squared"]), delta)
    epsilons = [
        ("epsilon before", _epsilon(before, delta), ledger["epsilon_before"]),
        ("epsilon after", spent, ledger["epsilon_after"]),
        ("epsilon of the budget", budget, limit),
    ]
    problems = differences(epsilons, theorems.EPSILON_TOLERANCE, 1e-12)
    if spent > limit * (1 + theorems.EPSILON_TOLERANCE):
        problems.append(f"epsilon {spent:.9g} exceeds the budget of {limit}")
    words = f"epsilon {min(spent, limit):.5g} of {limit:.5g} spent after this release"
    return finding_of("ledger", problems, f"{words}, at delta {delta:.6g}")


def _epsilon(cost: Document, delta: float) -> float:
    """Return ``eps(mu, delta - sum delta_j) + sum eps_j``."""
    gaussian = epsilon_of(math.sqrt(cost["mu_squared"]), delta - cost["delta"])
    return gaussian + float(cost["epsilon"])


_OF_A_PROJECTION = ("projection_multiplier", "projection_radius")
_VARIANCES = ("effect_variance", "residual_variance")
_OF_FITTED_EFFECTS = (*_VARIANCES, "genetic_factors", "point_normal_columns")

# Estimators that a user may choose, and the numbers that each states.
_OPEN: Mapping[str, tuple[str, ...]] = {
    "known-noise": _VARIANCES,
    "effect-variances": _VARIANCES,
    "genetic-factors": _OF_FITTED_EFFECTS,
    "point-normal": _OF_FITTED_EFFECTS,
    "ridge": (),
}
# Names of the parameters of each estimator.
PARAMETERS: Mapping[str, tuple[str, ...]] = {
    **_OPEN,
    "projection": _OF_A_PROJECTION,
    "unit-ridge": (),
    "ridge-beyond-smallest-eigenvalue": ("smallest_eigenvalue_bound",),
}
# Estimators that are no ridge.
WITHOUT_PENALTIES = ("known-noise", "effect-variances", "genetic-factors", "point-normal")


@dataclass(frozen=True)
class MethodFacts:
    """Privacy units, estimators and other properties of a method."""

    privacy: tuple[str, ...]
    estimators: tuple[str, ...]
    # Whether a share of the statistics' mu^2 is spent on the smallest eigenvalue of X'X.
    measures_eigenvalue: bool = False
    copies_each: bool = False  # whether every phenotype has a separate X'X
    subsamples: bool = False  # whether X'X is summed over a subsample
    parameters: tuple[str, ...] = ()  # names of parameters besides those of the estimator


# Estimators without noise, the first also for LD components; others choose by the noise.
_NOISELESS = ("point-normal", "effect-variances", "ridge")
# Methods for which public scores can be the prior mean of the effects.
BUILD_ON_SCORES = ("reuse-cov-gauss", "sub-samp-reuse-cov")
_EVERY = ("full", "label", "feature")
_GENOTYPES = ("full", "feature")
_EIGENVALUE = ("ridge-beyond-smallest-eigenvalue",)

# Properties of every method of docs/methods.md.
METHODS: Mapping[str, MethodFacts] = {
    "reuse-cov-gauss": MethodFacts(_EVERY, tuple(_OPEN)),
    "reuse-cov-proj-x": MethodFacts(("label",), ("projection",)),
    "reuse-cov-proj-y": MethodFacts(("feature",), tuple(_OPEN), parameters=_OF_A_PROJECTION),
    "reuse-cov-proj": MethodFacts(("full",), ("projection",)),
    "sub-samp-reuse-cov": MethodFacts(_GENOTYPES, tuple(_OPEN), subsamples=True),
    "ssp": MethodFacts(_GENOTYPES, ("unit-ridge",)),
    "ada-ssp": MethodFacts(_GENOTYPES, _EIGENVALUE, measures_eigenvalue=True),
    "ada-ssp-budget": MethodFacts(_GENOTYPES, _EIGENVALUE, measures_eigenvalue=True),
    "const-ssp-full": MethodFacts(_GENOTYPES, _EIGENVALUE),
    "naive": MethodFacts(_GENOTYPES, tuple(_OPEN), copies_each=True),
}


def method_problems(document: Document) -> list[str]:
    """Return the differences between a mechanism and the method that it names."""
    mechanism, name = document["mechanism"], document["mechanism"]["method"]
    facts = METHODS.get(name)
    if facts is None:
        return [f"there is no method {name}"]
    copies = document["cohort"]["n_phenotypes"] if facts.copies_each else 1
    share, subsample = mechanism["eigenvalue_share"], mechanism["subsample"]
    problems = []
    if document["guarantee"]["privacy"] not in facts.privacy:
        problems.append(f"{name} does not have {document['guarantee']['privacy']} privacy")
    if not (0 < share < 1 if facts.measures_eigenvalue else share == 0):
        allowed = "more than 0 and less than 1" if facts.measures_eigenvalue else "0"
        problems.append(f"{name} spends a share of {allowed} on an eigenvalue, not {share:.6g}")
    if mechanism["gram_copies"] != copies:
        problems.append(f"{name} makes {copies} copies of X'X, not {mechanism['gram_copies']}")
    if (subsample is not None) != facts.subsamples:
        problems.append(f"{name} has a subsample of {subsample}")
    return problems


def check_estimation(document: Document) -> Finding:
    """Check estimator, parameters and public scores."""
    detail = f"{document['estimation']['estimator']} with its parameters"
    return finding_of("estimation", estimation_problems(document), detail)


def estimation_problems(document: Document) -> list[str]:
    """Return the differences between an estimation and its method and estimator.

    A parameter with another name is a problem, because its origin is unknown.
    """
    estimation, mechanism = document["estimation"], document["mechanism"]
    estimator = estimation["estimator"]
    noiseless = _NOISELESS[:1] if document["cohort"]["component_sizes"] else _NOISELESS
    facts = METHODS.get(mechanism["method"]) if mechanism else MethodFacts(_EVERY, noiseless)
    if facts is None:
        return []
    if estimator not in facts.estimators:
        return [f"estimator is {estimator}, not one of {', '.join(facts.estimators)}"]
    problems = []
    expected = {*PARAMETERS[estimator], *facts.parameters}
    if estimation["parameters"].keys() != expected:
        found = ", ".join(estimation["parameters"]) or "none"
        allowed = ", ".join(sorted(expected)) or "none"
        problems.append(f"parameters are {found}; {estimator} has {allowed}")
    penalties = set(estimation["penalties"])
    if estimator == "ridge" and (len(penalties) > 1 or min(penalties, default=0) < 0):
        problems.append("ridge has one penalty of at least 0, the same in every LD block")
    for score in estimation["public_scores"]:
        names = {phenotype["name"] for phenotype in document["public_inputs"]["phenotypes"]}
        file, phenotypes = score["file"], [slope["phenotype"] for slope in score["slopes"]]
        if mechanism and mechanism["method"] not in BUILD_ON_SCORES:
            problems.append(f"{mechanism['method']} does not build on public scores")
        if len(set(phenotypes)) != len(phenotypes) or not names.issuperset(phenotypes):
            problems.append(f"slopes on {file} are not of distinct phenotypes of the release")
    features = document["public_inputs"]["score_features"]
    for score in (*estimation["public_scores"], *features):
        # A stack releases the variants that have a weight, and a score may have weights of 0.
        here = score["n_variants"] if features else document["cohort"]["n_variants"]
        if score["n_matched"] > min(score["n_variants"], here):
            problems.append(f"{score['file']} matches more variants than there are")
    if features and sum(document["cohort"]["component_sizes"] or ()) > len(features):
        problems.append("there are more columns than public scores")
    return problems
