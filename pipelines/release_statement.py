"""What a release says about itself, put together from its design and the noise it got."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from pipelines.design import Design
from pipelines.estimation import Estimate
from primo_scale import __version__
from primo_scale.privacy import sensitivity
from primo_scale.privacy.calibration import composed_epsilon
from primo_scale.privacy.mechanism import COUNTS_SHARE, GramMechanism
from primo_scale.privacy.noise import Sampler, fine_bits, sampler_for
from primo_scale.privacy.planning import effective_sample_size
from primo_scale.privacy.private_statistics import count_draws
from primo_scale.privacy.sensitivity import Adjacency
from primo_scale.privacy.spending import Balance, Charge
from primo_scale.release import statement as said

_STATISTICS = ("X'X by LD block", "X'Z", "Z'Z", "people with each phenotype")


_RNG = {
    Sampler.OPENDP: "operating system entropy, through OpenDP",
    Sampler.KEYSTREAM: "AES-256-CTR under a fresh key from operating system entropy, so that the "
    "guarantee is computational (docs/noise.md)",
}


@dataclass(frozen=True)
class Payment:
    """What a private release was paid with.

    Attributes
    ----------
    mechanism
        The calibrated noise.
    charge
        In the ledger.
    balance
        Of the account, this charge included.
    """

    mechanism: GramMechanism
    charge: Charge
    balance: Balance


def make_statement(
    design: Design, estimate: Estimate, payment: Payment | None, *, genome_build: str
) -> said.Statement:
    """State a release; one without a payment is NOT PRIVATE."""
    layout = design.layout
    return said.Statement(
        software=said.Software("primo_scale", __version__),
        created=datetime.now(UTC).date().isoformat(),
        private=payment is not None,
        guarantee=None if payment is None else _guarantee(payment.mechanism),
        mechanism=None if payment is None else _mechanism(design, payment.mechanism),
        cohort=said.Cohort(
            n_samples=design.n_samples,
            n_variants=layout.n_variants,
            n_phenotypes=layout.n_phenotypes,
            n_covariates=layout.n_fixed - 1,
            block_sizes=layout.sizes,
        ),
        public_inputs=_public_inputs(design, genome_build),
        estimation=said.Estimation(
            shrinkage=estimate.rule,
            parameters=estimate.parameters,
            eigenvalue_floor=estimate.floor,
            attenuation=tuple(estimate.response.slope.tolist()),
        ),
        accuracy=_accuracy(design, payment),
        ledger=None if payment is None else _ledger_entry(payment),
        unprotected=() if payment is not None else _STATISTICS,
    )


def _guarantee(mechanism: GramMechanism) -> said.Guarantee:
    return said.Guarantee(
        epsilon=mechanism.epsilon,
        delta=mechanism.delta,
        mu=mechanism.mu,
        adjacency="replace-one",
        unit="one person's whole row",
        privacy="full",
        accountant="analytic Gaussian profile (Balle and Wang 2018), mu^2 added over queries",
    )


def _mechanism(design: Design, mechanism: GramMechanism) -> said.Mechanism:
    sampler = sampler_for(count_draws(design.layout))
    return said.Mechanism(
        name="reuse-cov-gauss",
        split=mechanism.split,
        row_norm_squared=mechanism.row_norm,
        outcome_norm_squared=mechanism.outcome_norm,
        constant_and_covariates_norm_squared=design.outcomes.constant_norm,
        phenotypes_norm_squared=design.phenotype_norm,
        joint_sensitivity=sensitivity.stacked(mechanism.row_norm, mechanism.split),
        counts_share=COUNTS_SHARE,
        queries=_queries(design, mechanism),
        sampler=str(sampler),
        rng=_RNG[sampler],
    )


def _queries(design: Design, mechanism: GramMechanism) -> tuple[said.Query, ...]:
    layout = design.layout
    d, q, l = layout.n_variants, layout.n_outcomes, layout.n_phenotypes  # noqa: E741
    row, outcome = mechanism.row_norm, mechanism.outcome_norm
    replace = Adjacency.REPLACE_ONE
    return (
        said.Query(
            name="gram",
            statistic=_STATISTICS[0],
            shape=(d, d),
            layout="svec",
            sensitivity=sensitivity.gram(row, replace),
            sigma=mechanism.gram_sigma,
            off_diagonal_sigma=mechanism.gram_off_diagonal_sigma,
            fine_bits=fine_bits(mechanism.gram_off_diagonal_sigma),
        ),
        said.Query(
            name="cross",
            statistic=_STATISTICS[1],
            shape=(d, q),
            layout="full",
            sensitivity=sensitivity.cross(row, outcome, replace),
            sigma=mechanism.cross_sigma,
            off_diagonal_sigma=None,
            fine_bits=fine_bits(mechanism.cross_sigma),
        ),
        said.Query(
            name="outcome_gram",
            statistic=_STATISTICS[2],
            shape=(q, q),
            layout="svec",
            sensitivity=sensitivity.gram(outcome, replace),
            sigma=mechanism.outcome_sigma,
            off_diagonal_sigma=mechanism.outcome_off_diagonal_sigma,
            fine_bits=fine_bits(mechanism.outcome_off_diagonal_sigma),
        ),
        said.Query(
            name="observed",
            statistic=_STATISTICS[3],
            shape=(l,),
            layout="full",
            sensitivity=sensitivity.observed_counts(l),
            sigma=mechanism.counts_sigma,
            off_diagonal_sigma=None,
            fine_bits=fine_bits(mechanism.counts_sigma),
        ),
    )


def _public_inputs(design: Design, genome_build: str) -> said.PublicInputs:
    outcomes = design.outcomes
    return said.PublicInputs(
        reference_frequencies=(
            "uninformative"
            if design.reference is None
            else said.ReferenceFrequencies(**design.reference)
        ),
        genotype_unit=design.genotypes.unit,
        phenotype_unit=outcomes.unit,
        constant=outcomes.constant,
        phenotypes=tuple(said.PhenotypeBounds(**asdict(p)) for p in outcomes.phenotypes),
        covariates=tuple(said.CovariateBounds(**asdict(c)) for c in outcomes.covariates),
        ld_blocks=design.ld_blocks,
        genome_build=genome_build,
    )


def _accuracy(design: Design, payment: Payment | None) -> said.Accuracy:
    if payment is None:
        return said.Accuracy(float(design.n_samples), "no noise: the cohort's own size")
    size = effective_sample_size(
        design.sizes, clip=design.clip, cross_sigma=payment.mechanism.cross_sigma
    )
    return said.Accuracy(
        size,
        "n c^2 / (v + noise) for one variant, from public sizes; noise averages out over "
        "variants in linkage disequilibrium, so that scores do better than this",
    )


def _ledger_entry(payment: Payment) -> said.LedgerEntry:
    balance, cost = payment.balance, payment.charge.mu_squared
    delta = balance.budget.delta
    before = max(0.0, balance.mu_squared_spent - cost)
    return said.LedgerEntry(
        # The ledger's own identifier stays inside: equal ones would say that nobody joined or left.
        cohort=balance.account.given_name or "unnamed",
        charge=payment.charge.id,
        mu_squared_before=before,
        mu_squared_after=before + cost,
        mu_squared_budget=balance.budget.mu_squared,
        epsilon_before=composed_epsilon(before, delta),
        epsilon_after=composed_epsilon(before + cost, delta),
        epsilon_budget=composed_epsilon(balance.budget.mu_squared, delta),
        delta=delta,
    )
