"""Small artificial releases: one for every kind of promise and of mechanism."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import structs

from primo_scale.gaussian.calibration import Cost
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
from primo_scale.genotypes.coding import GenotypeCoding
from primo_scale.genotypes.tables import VariantTable
from primo_scale.ledger.accounts import Account, AccountBudget, Balance, Charge, ChargeRequest
from primo_scale.methods.catalogue import ESTIMATORS, METHODS
from primo_scale.methods.solve import Solution
from primo_scale.outcomes.coding import CovariateCoding, OutcomeCoding, PhenotypeBounds
from primo_scale.privacy.mechanism import Guarantee, Mechanism, calibrate, release_cost
from primo_scale.privacy.payment import adjustment_sigma
from primo_scale.privacy.planning import ClipResponse, Forecast
from primo_scale.publication.publish import publish_release, statement_document
from primo_scale.publication.weights import ScoringWeights, SummaryStatistics
from primo_scale.run.design import ChosenMethod, Design, PaidAdjustment
from primo_scale.run.estimation import Solved
from primo_scale.run.publishing import Payment, make_statement
from primo_scale.verify import guarantee as recompute_method
from primo_scale.verify.document import ReleaseDocument
from primo_scale.verify.files import Signer
from primo_scale.verify.formats import chromosomes_of
from support.filesets import variants_with

FILES = (
    "README.txt", "weights.tsv.gz", "covariates.tsv", "centre.afreq", "pgs/height.txt.gz",
    "pgs/LDL.txt.gz", "report.html",
)  # fmt: skip
"""Files of a release beside release.json."""
CONSTANT = 3
ROW_NORM, PHENOTYPE_NORM = 3_000_017, 4_194_304
BLOCK_NORMS = (1_900_003, 1_700_021)
PEOPLE = 1000
BUDGET = 5.0, 1e-7
EXPECTED = Forecast(123.4, 0.12, 0.25, 0.2)
BUILD = "GRCh37"
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC_KEY = KEY.public_key().public_bytes_raw().hex()
SIGNER = Signer(PUBLIC_KEY, KEY.sign)
_LABEL, _FEATURE = PrivacyUnit.LABEL, PrivacyUnit.FEATURE
_REPLACE, _ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE


@dataclass(frozen=True)
class Mode:
    """Kind of promise and of mechanism, and the calibration that it needs."""

    calibration: str
    privacy: PrivacyUnit = PrivacyUnit.FULL
    adjacency: Adjacency = _REPLACE
    block_norms: tuple[int, ...] | None = None
    method: str = "reuse-cov-gauss"
    subsample: int | None = None


MODES = {
    "full": Mode("stacked"),
    "full-blocks": Mode("by-block", block_norms=BLOCK_NORMS),
    "full-blocks-within-the-row": Mode("stacked", block_norms=(1_300_003, 1_700_014)),
    "full-add-remove": Mode("add-remove", adjacency=_ADD),
    "full-add-remove-blocks": Mode("add-remove", adjacency=_ADD, block_norms=BLOCK_NORMS),
    "label": Mode("label", _LABEL),
    "label-add-remove": Mode("label", _LABEL, _ADD),
    "feature": Mode("stacked", _FEATURE),
    "feature-blocks": Mode("by-block", _FEATURE, block_norms=BLOCK_NORMS),
    "feature-add-remove": Mode("add-remove", _FEATURE, _ADD),
    "subsampled": Mode("subsampled", method="sub-samp-reuse-cov", subsample=100),
    "subsampled-feature": Mode("subsampled", _FEATURE, method="sub-samp-reuse-cov", subsample=900),
    "naive": Mode("stacked", method="naive"),
    "naive-blocks": Mode("by-block", block_norms=BLOCK_NORMS, method="naive"),
    "ada-ssp": Mode("stacked", method="ada-ssp"),
    "ada-ssp-add-remove": Mode(
        "add-remove", adjacency=_ADD, block_norms=BLOCK_NORMS, method="ada-ssp-budget"
    ),
}


def example_variants(d: int = 7) -> VariantTable:
    names, positions = [f"rs{j}" for j in range(d)], 100 * np.arange(1, d + 1)
    return variants_with(d, chromosome="22", identifier=names, position=positions)


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


def example_coding(weights: ScoringWeights) -> OutcomeCoding:
    return OutcomeCoding(
        CONSTANT,
        tuple(CovariateCoding(name, 18.0, 99.0, 50.0, 10.0) for name in weights.covariates),
        tuple(
            PhenotypeBounds(name, -4.0, 4.0, 0.0, 1.0, "quantitative")
            for name in weights.phenotypes
        ),
        unit=1024,
    )


def example_design(
    mode: str = "full",
    weights: ScoringWeights | None = None,
    budget: tuple[float, float] = BUDGET,
    **changes: Any,
) -> Design:
    """Return the public choices of a release in two LD blocks; `changes` replace fields."""
    weights = example_weights() if weights is None else weights
    kind, d = MODES[mode], len(weights.variants)
    genotypes = GenotypeCoding(
        multiplier=np.ones(d, np.int16), centre=np.ones(d, np.int16), unit=1,
        variances=np.full(d, 0.5), source="nothing",
    )  # fmt: skip
    design = Design(
        n_samples=PEOPLE,
        nominal_n=None,
        guarantee=Guarantee(*budget, kind.privacy, kind.adjacency),
        subsample=kind.subsample,
        boundaries=(0, d // 2, d),
        ld_blocks="window:4",
        genotypes=genotypes,
        outcomes=example_coding(weights),
        reference=None,
        row_norm=ROW_NORM,
        block_norms=kind.block_norms,
        phenotype_norm=PHENOTYPE_NORM,
        genotype_store="/secret/place/genotypes.zarr",
    )
    if design.promise.n_is_private:
        design = dataclasses.replace(design, nominal_n=PEOPLE)
    norm, cost = 5_000_000, release_cost(design.promise, kind.subsample)
    sigma = adjustment_sigma(norm, kind.adjacency, cost)
    paid = PaidAdjustment(f"{1:016x}", sigma, norm, "", ((1.0,),))
    return dataclasses.replace(design, adjustment=paid, **changes)


def example_mechanism(mode: str, design: Design) -> Mechanism:
    recipe = METHODS[MODES[mode].method].recipe(design.layout.n_phenotypes, design.subsample)
    return calibrate(design.bounds, design.promise, recipe, split=1.5)


def example_costs(mechanism: Mechanism) -> list[Cost]:
    cost = release_cost(mechanism.promise, mechanism.recipe.subsample)
    return [Cost(0.1 * cost.mu_squared), cost]


def example_payment(mechanism: Mechanism) -> Payment:
    promise = mechanism.promise
    epsilon, delta = promise.epsilon, promise.delta
    account = Account("biobank", promise.unit, promise.adjacency)
    charges = tuple(
        Charge(f"{number:016x}", ChargeRequest(account, f"{number}", epsilon, delta, cost))
        for number, cost in enumerate(example_costs(mechanism))
    )
    balance = Balance(account, AccountBudget(3 * epsilon, delta), charges)
    return Payment(mechanism, charges[1], balance, EXPECTED)


def example_solved(mode: str, design: Design, estimator: str = "ridge") -> Solved:
    """Return a solution by an estimator of the method; by its only one if it leaves no choice."""
    method, layout = METHODS[MODES[mode].method], design.layout
    chosen = ESTIMATORS[estimator] if method.estimator.is_choice else method.estimator
    facts = recompute_method.METHODS[method.name]
    names = (*recompute_method.PARAMETERS[chosen.name], *facts.parameters)
    copies = method.recipe(layout.n_phenotypes, design.subsample).gram_copies
    weights = (
        np.zeros((layout.n_variants, layout.n_phenotypes)),
        np.zeros((1 + len(design.outcomes.covariates), layout.n_phenotypes)),
    )
    is_ridge = chosen.name not in recompute_method.WITHOUT_PENALTIES
    penalties = (1.5,) * (layout.n_blocks * copies * is_ridge)
    numbers = dict.fromkeys(names, 1.5)
    solution = Solution(*weights, numbers, penalties)
    slope = np.full(layout.n_phenotypes, 0.9)
    slope[1:] = 1 + 1e-15  # rounding errors must not become an attenuation above 1
    response = ClipResponse(slope, np.zeros(layout.n_phenotypes), np.ones(layout.n_phenotypes))
    return Solved(ChosenMethod(method, "as given", chosen), solution, response, example_weights())


def example_statement(
    weights: ScoringWeights,
    *,
    mode: str = "full",
    private: bool = True,
    epsilon: float = BUDGET[0],
    delta: float = BUDGET[1],
    estimator: str = "ridge",
    **changes: Any,
) -> ReleaseDocument:
    """Return the statement of a release; `changes` replace fields of its design."""
    changes = changes if private else {"guarantee": None, **changes}
    design = example_design(mode, weights, (epsilon, delta), **changes)
    payment = None
    if private:
        payment = example_payment(example_mechanism(mode, design))
    return state(design, example_solved(mode, design, estimator), payment)


def state(design: Design, solved: Solved, payment: Payment | None) -> ReleaseDocument:
    statement = make_statement(design, solved, payment, BUILD)
    return structs.replace(statement, created="2026-11-20")


def publish_example(
    directory: Path, *, mode: str = "full", private: bool = True, summary: bool = False
) -> Path:
    weights = example_weights()
    statement = example_statement(weights, mode=mode, private=private)
    if summary:
        weights = dataclasses.replace(weights, summary=example_summary(weights))
        statement = structs.replace(statement, summary_statistics=True)
    return publish(directory, weights, statement)


def example_summary(weights: ScoringWeights) -> SummaryStatistics:
    """Return effects from nothing to far beyond the smallest float64 p-value."""
    beta = weights.per_allele * 10.0 ** np.arange(-3, len(weights.variants) - 3)[:, None]
    return SummaryStatistics(beta, np.full(beta.shape, 0.7), weights.centre_dosage / 2)


def publish(directory: Path, weights: ScoringWeights, statement: ReleaseDocument) -> Path:
    publish_release(directory, weights, statement, signer=SIGNER if statement.private else None)
    return directory


def example_document(
    mode: str = "full", weights: ScoringWeights | None = None, **promise: float
) -> dict[str, Any]:
    statement = example_statement(weights or example_weights(), mode=mode, **promise)
    files = [{"name": name, "sha256": "0" * 64, "bytes": 1} for name in FILES]
    signature = {"algorithm": "Ed25519", "public_key": "0" * 64, "value": "0" * 128}
    own = {"chromosomes": chromosomes_of(["22"]), "files": files, "signature": signature}
    return statement_document(statement) | own
