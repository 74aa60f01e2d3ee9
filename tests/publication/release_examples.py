"""Small artificial releases: one for every kind of promise and of mechanism."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from scipy.optimize import brentq

from primo_scale.gaussian.calibration import Cost, release_mu
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit, phenotype_moments
from primo_scale.genotypes.tables import VariantTable
from primo_scale.privacy.mechanism import Mechanism, Promise, PublicBounds, Recipe
from primo_scale.privacy.scales import calibrate
from primo_scale.publication import statement as said
from primo_scale.publication.publish import publish_release
from primo_scale.publication.scoring import scoring_of
from primo_scale.publication.signature import Signer
from primo_scale.publication.statement_inputs import (
    PublicInputs,
    Source,
    StatedCovariate,
    StatedPhenotype,
)
from primo_scale.publication.weights import ScoringWeights
from primo_scale.publication.wording import public_by_assumption
from primo_scale.run.describe_mechanism import Stated, state_guarantee, state_mechanism
from primo_scale.version import __version__

OPTIONS = {"epsilon": "5", "ld-blocks": "window:4"}
ROW_NORM, FIXED_NORM, PHENOTYPE_NORM = 3_000_017, 700_001, 4_194_304
BLOCK_NORMS = (1_900_003, 1_700_021)
PEOPLE = 1000
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC_KEY = KEY.public_key().public_bytes_raw().hex()
SIGNER = Signer(PUBLIC_KEY, KEY.sign)
_EVERYTHING_ONCE = Recipe()
_REPLACE, _ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE


@dataclass(frozen=True)
class Mode:
    """Kind of promise and of mechanism, and the calibration that it needs."""

    calibration: str
    privacy: PrivacyUnit = PrivacyUnit.FULL
    adjacency: Adjacency = _REPLACE
    block_norms: tuple[int, ...] | None = None
    recipe: Recipe = _EVERYTHING_ONCE
    share: float = 1.0
    method: str = "reuse-cov-gauss"


MODES = {
    "full": Mode("stacked"),
    "full-blocks": Mode("by-block", block_norms=BLOCK_NORMS),
    "full-blocks-within-the-row": Mode("stacked", block_norms=(1_300_003, 1_700_014)),
    "full-add-remove": Mode("add-remove", adjacency=_ADD),
    "full-add-remove-blocks": Mode("add-remove", adjacency=_ADD, block_norms=BLOCK_NORMS),
    "label": Mode("label", PrivacyUnit.LABEL),
    "label-add-remove": Mode("label", PrivacyUnit.LABEL, _ADD),
    "feature": Mode("stacked", PrivacyUnit.FEATURE),
    "feature-blocks": Mode("by-block", PrivacyUnit.FEATURE, block_norms=BLOCK_NORMS),
    "feature-add-remove": Mode("add-remove", PrivacyUnit.FEATURE, _ADD),
    "subsampled": Mode("subsampled", recipe=Recipe(subsample=100), method="sub-samp-reuse-cov"),
    "subsampled-feature": Mode(
        "subsampled",
        PrivacyUnit.FEATURE,
        recipe=Recipe(subsample=900),
        method="sub-samp-reuse-cov",
    ),
    "naive": Mode("stacked", recipe=Recipe(gram_copies=2), method="naive"),
    "naive-blocks": Mode(
        "by-block", block_norms=BLOCK_NORMS, recipe=Recipe(gram_copies=2), method="naive"
    ),
    "ada-ssp": Mode("stacked", recipe=Recipe(eigenvalue_share=1 / 3), method="ada-ssp"),
    "ada-ssp-add-remove": Mode(
        "add-remove",
        adjacency=_ADD,
        block_norms=BLOCK_NORMS,
        recipe=Recipe(eigenvalue_share=0.05),
        method="ada-ssp-budget",
    ),
    "moments": Mode("stacked", share=0.95),
    "moments-label-add-remove": Mode("label", PrivacyUnit.LABEL, _ADD, share=0.95),
}


def example_variants(d: int = 7) -> VariantTable:
    return VariantTable(
        chromosome=np.array(["22"] * d, dtype=object),
        identifier=np.array([f"rs{j}" for j in range(d)], dtype=object),
        centimorgan=np.zeros(d),
        position=np.arange(1, d + 1, dtype=np.int64) * 100,
        allele1=np.array(["A"] * d, dtype=object),
        allele2=np.array(["G"] * d, dtype=object),
    )


def example_weights(
    variants: VariantTable | None = None,
    phenotypes: tuple[str, ...] = ("height", "LDL"),
    covariates: tuple[str, ...] = ("AGE",),
) -> ScoringWeights:
    variants = example_variants() if variants is None else variants
    rng = np.random.default_rng(5)
    d, n_phenotypes = len(variants), len(phenotypes)
    return ScoringWeights(
        variants=variants,
        phenotypes=phenotypes,
        per_allele=rng.normal(size=(d, n_phenotypes)),
        intercept=rng.normal(size=n_phenotypes),
        covariates=covariates,
        covariate_weights=rng.normal(size=(len(covariates), n_phenotypes)),
        centre_dosage=np.ones(d),
    )


def profile(epsilon: float, mu: float, *, digits: int = 60) -> mpmath.mpf:
    """Return the Balle-Wang profile by its definition."""
    with mpmath.workdps(digits):
        ratio = mpmath.mpf(epsilon) / mu
        half = mpmath.mpf(mu) / 2
        return mpmath.ncdf(half - ratio) - mpmath.exp(epsilon) * mpmath.ncdf(-half - ratio)


def epsilon_at(mu: float, delta: float) -> float:
    """Return the epsilon at which the profile of `mu` falls to delta."""
    if profile(0.0, mu) <= delta:
        return 0.0
    return float(
        brentq(lambda epsilon: float(mpmath.log(profile(epsilon, mu) / delta)), 0, 30 * mu + mu**2)
    )


def example_mechanism(
    mode: str = "full",
    *,
    epsilon: float = 5.0,
    delta: float = 1e-7,
    block_sizes: tuple[int, ...] = (3, 4),
    n_phenotypes: int = 2,
) -> Mechanism:
    kind = MODES[mode]
    bounds = PublicBounds(
        row_norm=ROW_NORM,
        block_norms=kind.block_norms,
        fixed_norm=FIXED_NORM,
        phenotype_norm=PHENOTYPE_NORM,
        block_sizes=block_sizes,
        n_samples=PEOPLE,
        n_phenotypes=n_phenotypes,
    )
    promise = Promise(epsilon, delta, kind.privacy, kind.adjacency, kind.share)
    return calibrate(bounds, promise, kind.recipe, split=1.5)


def example_charges(mechanism: Mechanism) -> list[Cost]:
    """Return the cost of each charge of a release; a charge for phenotype moments is the first."""
    promise = mechanism.promise
    whole = release_mu(promise.epsilon, promise.delta) ** 2
    first = [] if promise.share == 1 else [Cost((1 - promise.share) * whole)]
    return [*first, mechanism.cost]


def example_ledger(mechanism: Mechanism, *, identifiers: tuple[str, ...] = ("charge-1", "charge-2")
                   ) -> said.LedgerEntry:  # fmt: skip
    promise, costs = mechanism.promise, example_charges(mechanism)
    delta = promise.delta
    paid = sum(costs[1:], costs[0])
    earlier = Cost(0.1 * paid.mu_squared, 0.0, 0.0)
    budget = 3 * promise.epsilon
    return said.LedgerEntry(
        cohort="biobank",
        unit=str(promise.privacy),
        adjacency=str(promise.adjacency),
        delta=delta,
        charges=tuple(
            said.LedgerCharge(name, said.StatedCost(cost.mu_squared, cost.epsilon, cost.delta))
            for name, cost in zip(identifiers, costs, strict=False)
        ),
        before=_balance(earlier, delta),
        after=_balance(earlier + paid, delta),
        budget=said.LedgerBudget(budget, release_mu(budget, delta) ** 2),
    )


def _balance(cost: Cost, delta: float) -> said.LedgerBalance:
    epsilon = epsilon_at(cost.mu_squared**0.5, delta - cost.delta) + cost.epsilon
    return said.LedgerBalance(said.StatedCost(cost.mu_squared, cost.epsilon, cost.delta), epsilon)


def example_statement(
    weights: ScoringWeights,
    *,
    mode: str = "full",
    private: bool = True,
    epsilon: float = 5.0,
    delta: float = 1e-7,
) -> said.Statement:
    d, names = len(weights.variants), weights.phenotypes
    sizes = (d // 2, d - d // 2)
    mechanism = example_mechanism(
        mode, epsilon=epsilon, delta=delta, block_sizes=sizes, n_phenotypes=len(names)
    )
    promise, costs = mechanism.promise, example_charges(mechanism)
    hidden = private and promise.n_is_private
    penalties = (1.5,) * (len(sizes) * (mechanism.recipe.gram_copies if private else 1))
    return said.Statement(
        software=said.Software("primo_scale", __version__),
        created="2026-11-20",
        private=private,
        guarantee=state_guarantee(promise, sum(costs[1:], costs[0])) if private else None,
        mechanism=state_mechanism(mechanism, _also(mode, mechanism, weights)) if private else None,
        cohort=said.Cohort(
            n_samples=None if hidden else PEOPLE,
            nominal_n=PEOPLE if hidden else None,
            n_variants=d,
            n_phenotypes=len(names),
            n_covariates=len(weights.covariates),
            block_sizes=sizes,
        ),
        public_inputs=_inputs(weights),
        estimation=_estimation(MODES[mode].method if private else "", penalties, len(names)),
        accuracy=said.Accuracy(123.4, "n c^2 / (v + sigma2^2 / (n var))"),
        ledger=example_ledger(mechanism) if private else None,
        public_by_assumption=(
            public_by_assumption(promise.privacy, promise.adjacency) if private else ()
        ),
        unprotected=() if private else ("everything",),
    )  # fmt: skip


def _estimation(method: str, penalties: tuple[float, ...], n_phenotypes: int) -> said.Estimation:
    """State a rule by the smallest eigenvalue if it is paid for, else a given ridge."""
    estimator, numbers = "ridge", {}
    if method.startswith("ada-ssp"):
        estimator, numbers = "ridge-beyond-smallest-eigenvalue", {"smallest_eigenvalue_bound": 1.5}
    attenuation = (0.9,) * n_phenotypes
    return said.Estimation(
        estimator, "ridge, as given", "floor at 0.3", numbers, penalties, attenuation
    )


def _also(mode: str, mechanism: Mechanism, weights: ScoringWeights) -> Stated:
    promise, moments = mechanism.promise, None
    if promise.share < 1:
        change = phenotype_moments(len(weights.phenotypes), promise.adjacency)
        moments = change / example_charges(mechanism)[0].mu_squared ** 0.5
    return Stated(
        method=MODES[mode].method,
        summary="one noisy X'X for all phenotypes",
        reason="as given",
        n_fixed=1 + len(weights.covariates),
        moments_sigma=moments,
    )


def _inputs(weights: ScoringWeights) -> PublicInputs:
    return PublicInputs(
        reference_frequencies="uninformative",
        genotype_unit=1,
        phenotype_unit=1024,
        constant=3,
        phenotypes=tuple(
            StatedPhenotype(name, "quantitative", -4.0, 4.0, 0.0, 1.0)
            for name in weights.phenotypes
        ),
        covariates=tuple(
            StatedCovariate(name, 18.0, 99.0, 50.0, 10.0) for name in weights.covariates
        ),
        ld_blocks="window:4",
        genome_build="GRCh37",
        sources=(Source("LD blocks", "window:4", "--ld-blocks"),),
    )


def publish_example(directory: Path, *, mode: str = "full", private: bool = True) -> Path:
    weights = example_weights()
    statement = example_statement(weights, mode=mode, private=private)
    return publish(directory, weights, statement)


def publish(
    directory: Path,
    weights: ScoringWeights,
    statement: said.Statement,
    options: dict[str, str] = OPTIONS,
) -> Path:
    """Publish a release; a private one is signed by the test key."""
    signer = SIGNER if statement.private else None
    return publish_release(directory, weights, statement, options, signer=signer)


def example_document(mode: str = "full", **promise: float) -> dict[str, Any]:
    """Return a private release.json without its files."""
    statement = example_statement(example_weights(), mode=mode, **promise)
    document: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(statement)))
    names = ("README.txt", "weights.tsv.gz", "covariates.tsv", "centre.afreq", "report.html",
             "release.log", "pgs/height.txt.gz", "pgs/LDL.txt.gz")  # fmt: skip
    files = [{"name": name, "sha256": "0" * 64, "bytes": 1} for name in names]
    signature = {"algorithm": "Ed25519", "public_key": "0" * 64, "value": "0" * 128}
    return {"schema_version": 3, "stamp": statement.stamp, **document,
            "scoring": scoring_of(["22"]), "files": files, "signature": signature}  # fmt: skip
