"""A small release made up from public numbers, calibrated here by other code than the product's."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
from scipy.optimize import brentq

from primo_scale.genotypes.tables import VariantTable
from primo_scale.release.publish import publish_release
from primo_scale.release.statement import (
    Accuracy,
    Cohort,
    CovariateBounds,
    Estimation,
    Guarantee,
    LedgerEntry,
    Mechanism,
    PhenotypeBounds,
    PublicInputs,
    Query,
    Software,
    Statement,
    serialise,
    statement_digest,
)
from primo_scale.release.weights import ScoringWeights

OPTIONS = {"epsilon": "5", "ld-blocks": "window:4"}
ROW_NORM, FIXED_NORM, PHENOTYPE_NORM = 3_000_017, 700_001, 4_194_304


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
        centre_dosage=rng.uniform(0, 2, size=d),
    )


def profile(epsilon: float, mu: float) -> mpmath.mpf:
    """The Balle-Wang profile, straight from its definition in 60 digits."""
    with mpmath.workdps(60):
        ratio = mpmath.mpf(epsilon) / mu
        half = mpmath.mpf(mu) / 2
        return mpmath.ncdf(half - ratio) - mpmath.exp(epsilon) * mpmath.ncdf(-half - ratio)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The mu at which the profile passes through (epsilon, delta), rounded down."""
    root = brentq(
        lambda log_mu: float(mpmath.log(profile(epsilon, math.exp(log_mu)) / delta)),
        math.log(epsilon / 30),
        math.log(epsilon + 10),
        xtol=1e-14,
    )
    return math.exp(root) * (1 - 1e-13)


def epsilon_at(mu: float, delta: float) -> float:
    """The epsilon at which the profile of `mu` falls to delta."""
    if profile(0.0, mu) <= delta:
        return 0.0
    return float(
        brentq(lambda epsilon: float(mpmath.log(profile(epsilon, mu) / delta)), 0, 30 * mu + mu**2)
    )


def example_mechanism(mu: float, cohort: Cohort, split: float = 1.5) -> Mechanism:
    share = 0.01
    outcome_norm = FIXED_NORM + PHENOTYPE_NORM
    k = math.sqrt(split * ROW_NORM / (2 * outcome_norm))
    joint = math.sqrt(2) * (ROW_NORM + k**2 * outcome_norm)
    gram = joint / (mu * math.sqrt(1 - share))
    d, n_phenotypes = cohort.n_variants, cohort.n_phenotypes
    q = 1 + cohort.n_covariates + n_phenotypes
    facts = [
        ("gram", (d, d), math.sqrt(2) * ROW_NORM, gram),
        ("cross", (d, q), 2 * math.sqrt(ROW_NORM * outcome_norm), gram / (math.sqrt(2) * k)),
        ("outcome_gram", (q, q), math.sqrt(2) * outcome_norm, gram / k**2),
        (
            "observed",
            (n_phenotypes,),
            math.sqrt(n_phenotypes),
            math.sqrt(n_phenotypes / share) / mu,
        ),
    ]
    return Mechanism(
        name="reuse-cov-gauss",
        split=split,
        row_norm_squared=ROW_NORM,
        outcome_norm_squared=outcome_norm,
        constant_and_covariates_norm_squared=FIXED_NORM,
        phenotypes_norm_squared=PHENOTYPE_NORM,
        joint_sensitivity=joint,
        counts_share=share,
        queries=tuple(_query(*fact) for fact in facts),
        sampler="discrete Gaussian, exact",
        rng="operating system",
    )


def _query(name: Any, shape: tuple[int, ...], sensitivity: float, sigma: float) -> Query:
    symmetric = name.endswith("gram")
    sigma *= 1 + 1e-15
    return Query(
        name=name,
        statistic=f"the statistic {name}",
        shape=shape,
        layout="svec" if symmetric else "full",
        sensitivity=sensitivity,
        sigma=sigma,
        off_diagonal_sigma=sigma / math.sqrt(2) * (1 + 1e-15) if symmetric else None,
        fine_bits=max(0, math.ceil(32.6 - math.log2(sigma))),
    )


def example_statement(
    weights: ScoringWeights, *, private: bool = True, epsilon: float = 5.0, delta: float = 1e-7
) -> Statement:
    d = len(weights.variants)
    cohort = Cohort(
        n_samples=1000,
        n_variants=d,
        n_phenotypes=len(weights.phenotypes),
        n_covariates=len(weights.covariates),
        block_sizes=(d // 2, d - d // 2),
    )
    mu = gaussian_mu(epsilon * (1 - 1e-6), delta)
    spent, budget = mu**2 / 10, 4 * mu**2
    epsilon_before, epsilon_after, epsilon_budget = (
        epsilon_at(math.sqrt(mu_squared), delta) for mu_squared in (spent, spent + mu**2, budget)
    )
    return Statement(
        software=Software("primo_scale", "0.1.0"),
        created="2026-11-20",
        private=private,
        guarantee=Guarantee(
            epsilon, delta, mu, "replace-one", "one person's whole row", "full",
            "analytic Gaussian profile",
        ) if private else None,
        mechanism=example_mechanism(mu, cohort) if private else None,
        cohort=cohort,
        public_inputs=PublicInputs(
            reference_frequencies="uninformative",
            genotype_unit=1,
            phenotype_unit=1024,
            constant=3,
            phenotypes=tuple(
                PhenotypeBounds(name, "quantitative", -4.0, 4.0, 0.0, 1.0)
                for name in weights.phenotypes
            ),
            covariates=tuple(
                CovariateBounds(name, 18.0, 99.0, 50.0, 10.0) for name in weights.covariates
            ),
            ld_blocks="window:4",
            genome_build="GRCh37",
        ),
        estimation=Estimation("ridge, as given", {"penalty": 1.5}, "floor at 0.3", (0.9,)),
        accuracy=Accuracy(123.4, "n c^2 / (v + sigma2^2 / (n var))"),
        ledger=LedgerEntry(
            "cohort-1", "charge-1", spent, spent + mu**2, budget,
            epsilon_before, epsilon_after, epsilon_budget, delta,
        ) if private else None,
        unprotected=() if private else ("everything",),
    )  # fmt: skip


def publish_example(directory: Path, *, private: bool = True) -> Path:
    weights = example_weights()
    return publish_release(directory, weights, example_statement(weights, private=private), OPTIONS)


def read_document(directory: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((directory / "release.json").read_bytes())
    return document


def forge(directory: Path, document: dict[str, Any]) -> None:
    """Replace release.json and make every digest fit, as a forger who knows the code would."""
    old = statement_digest(read_document(directory))
    new = statement_digest(document)
    for name in ("report.html", "release.log"):
        path = directory / name
        path.write_text(path.read_text().replace(old, new))
    for entry in document["files"]:
        content = (directory / entry["name"]).read_bytes()
        entry["sha256"] = hashlib.sha256(content).hexdigest()
        entry["bytes"] = len(content)
    (directory / "release.json").write_bytes(serialise(document))
