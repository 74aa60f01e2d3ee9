"""What the options of the command line ask for, sorted by what it is about."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from primo_scale.errors import UsageError

if TYPE_CHECKING:
    from primo_scale.cluster.profile import Profile
    from primo_scale.genotypes.filters import Selection
    from primo_scale.outcomes.bounds import CovariateBounds, PhenotypeBounds
    from primo_scale.outcomes.coding import OutcomeCoding
    from primo_scale.run.design import Budget, PaidMoments
    from primo_scale.run.design_choices import ModelChoices
    from primo_scale.run.estimation import MethodChoices
    from primo_scale.storage.locations import ObjectUrl


@dataclass(frozen=True)
class BoundedTable:
    """A table of phenotypes or covariates, and the public bounds of its columns."""

    values: Path
    bounds: Path


@dataclass(frozen=True)
class OutcomeChoices:
    """Phenotypes and covariates as given on the command line.

    Attributes
    ----------
    phenotypes, covariates
        Tables and their bounds.
    phenotype_names
        Columns asked for; None: every one.
    pay_moments
        Buy noisy means and sds of the phenotypes.
    """

    phenotypes: BoundedTable
    covariates: BoundedTable | None
    phenotype_names: tuple[str, ...] | None
    pay_moments: bool


_OF_THE_CLUSTER = ("workers", "memory_limit", "scheduler", "tls", "no_tls")
_AS_GIVEN = ("object_store", "kernel", "dry_run", "performance_report")
EXECUTION_OPTIONS = ("cluster", *_OF_THE_CLUSTER, *_AS_GIVEN)
"""Options that say where and how to compute, and so do not matter for what comes out."""


@dataclass(frozen=True)
class ExecutionChoices:
    """Where and how tasks run.

    Attributes
    ----------
    profile
        Threads or cluster that ``--cluster``, ``--scheduler``, ``--workers`` and the options that
        go with them ask for.
    object_store, kernel, dry_run, performance_report
        Values of the options of these names.
    """

    profile: Profile
    object_store: ObjectUrl | None
    kernel: str
    dry_run: bool
    performance_report: Path | None


@dataclass(frozen=True)
class ReleaseChoices:
    """What to release and on whose budget.

    Attributes
    ----------
    out
        The release directory.
    budget
        (epsilon, delta), or None for a release stamped NOT PRIVATE.
    methods
        How weights are made.
    ledger, cohort
        Ledger file and name of the cohort in it, where not the defaults.
    genome_build
        Genome build of the positions; None to tell it from known variants.
    """

    out: Path
    budget: Budget | None
    methods: MethodChoices
    ledger: Path | None
    cohort: str | None
    genome_build: str | None


@dataclass(frozen=True)
class RunChoices:
    """What a command that sums was asked for.

    Attributes
    ----------
    outcomes, model, execution
        Phenotypes and covariates; what shapes the statistics; where and how tasks run.
    ledger, cohort
        Ledger file and name of the cohort in it, where not the defaults.
    release
        The release to be made by the same command, or None.
    accept_noise
        Whether budget may be spent on weights that are expected to be noise.
    """

    outcomes: OutcomeChoices
    model: ModelChoices
    execution: ExecutionChoices
    ledger: Path | None
    cohort: str | None
    release: ReleaseChoices | None
    accept_noise: bool


def choices_from(
    options: dict[str, Any],
) -> tuple[OutcomeChoices, ModelChoices, ExecutionChoices]:
    """Sort the options of the command line into what they are about.

    Raises
    ------
    UsageError
        No bounds, epsilon and delta that no release could have, or options that exclude each
        other.
    """
    outcomes = OutcomeChoices(
        phenotypes=_bounded(options, "pheno"),
        covariates=None if options["covar"] is None else _bounded(options, "covar"),
        phenotype_names=options["pheno_name"],
        pay_moments=options["pheno_moments"],
    )
    model = _model_choices(options)
    as_given = {name: options[name] for name in _AS_GIVEN}
    execution = ExecutionChoices(profile=_cluster_profile(options), **as_given)
    if outcomes.pay_moments:
        _check_moments(model)
    if model.nominal_n is not None:
        _check_that_nobody_counts_tasks(execution.profile)
    _check_connection(execution.profile)
    return outcomes, model, execution


def _cluster_profile(options: dict[str, Any]) -> Profile:
    from primo_scale.cluster.profile import LocalProfile, SchedulerProfile, ThreadsProfile
    from primo_scale.cluster.read_profile import read_profile

    cluster, scheduler = options["cluster"], options["scheduler"]
    others = [name for name in _OF_THE_CLUSTER if options[name]]
    if cluster is not None and others:
        raise UsageError(
            "a profile says where tasks run, and nothing else may",
            where=f"--{others[0].replace('_', '-')}",
            remedy=f"Leave it out, or write it into {cluster}",
        )
    if cluster is not None:
        return read_profile(cluster)
    if options["tls"] is not None and options["no_tls"]:
        raise UsageError("--tls and --no-tls exclude each other", remedy="Give one of them")
    if scheduler is not None:
        return SchedulerProfile(scheduler, options["tls"] or not options["no_tls"])
    if options["tls"] is not None:
        raise UsageError(
            "certificates are for a cluster that runs elsewhere",
            where="--tls",
            value=options["tls"],
            remedy="Leave it out: the cluster on this machine makes certificates of its own",
        )
    # Dask's report is about workers.
    if options["workers"] or options["memory_limit"] or options["performance_report"]:
        return LocalProfile(options["workers"], options["memory_limit"])
    return ThreadsProfile()


def _check_connection(profile: Profile) -> None:
    """Refuse an open or impossible connection before hours of work, not after them."""
    from primo_scale.cluster.certificates import security_towards
    from primo_scale.cluster.profile import SchedulerProfile

    if isinstance(profile, SchedulerProfile):
        security_towards(profile.address, profile.tls)


def _check_that_nobody_counts_tasks(profile: Profile) -> None:
    """Where the number of people is private, the cluster's own scheduler must be ours, with TLS."""
    from primo_scale.cluster.profile import JobQueueProfile, LocalProfile, ThreadsProfile

    if isinstance(profile, ThreadsProfile | LocalProfile):
        return
    if isinstance(profile, JobQueueProfile) and profile.tls is not False:
        return
    raise UsageError(
        "the number of people is private, and a shared scheduler shows the number of tasks",
        where="--scheduler or --cluster",
        remedy="Use local workers or a job queue with TLS, or --adjacency replace-one",
    )


def _check_moments(model: ModelChoices) -> None:
    from primo_scale.gaussian.sensitivity import PrivacyUnit

    if model.budget is None:
        raise UsageError(
            "phenotype moments are part of a private release",
            where="--pheno-moments",
            remedy="Give --epsilon and --delta, and leave --non-private out",
        )
    if model.subsample is not None:
        raise UsageError(
            "phenotype moments and a subsample have no common account of the budget",
            where="--pheno-moments",
            remedy="Leave out --pheno-moments or --subsample",
        )
    if model.privacy is PrivacyUnit.FEATURE:
        raise UsageError(
            "phenotypes are public: their means and sds need not be paid for",
            where="--pheno-moments",
            remedy="Write mean and sd into --pheno-bounds",
        )


def _model_choices(options: dict[str, Any]) -> ModelChoices:
    """Options that shape the statistics.

    Raises
    ------
    UsageError
        A nominal size without need, or none where the real one is private; or a subsample of
        what gets no noise.
    """
    from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
    from primo_scale.privacy.mechanism import Promise
    from primo_scale.run.design_choices import ModelChoices

    privacy, adjacency = PrivacyUnit(options["privacy"]), Adjacency(options["adjacency"])
    budget = budget_from(options)
    # What (epsilon, delta) are does not matter for what they would protect.
    hides_n = not options["non_private"] and Promise(1.0, 1e-6, privacy, adjacency).n_is_private
    if hides_n != (options["nominal_n"] is not None):
        raise UsageError(
            "the number of people is private: name a public round size to plan for"
            if hides_n
            else "the number of people is public and needs no stand-in",
            where="--nominal-n",
            value=options["nominal_n"],
            remedy="Give the order of magnitude, such as 500000" if hides_n else "Leave it out",
        )
    if options["non_private"] and options["subsample"]:
        raise UsageError("without noise a subsample only loses people", where="--subsample")
    return ModelChoices(
        ref_freq=options["ref_freq"],
        ld_blocks=options["ld_blocks"],
        row_norm=options["row_norm"],
        privacy=privacy,
        adjacency=adjacency,
        nominal_n=options["nominal_n"],
        subsample=options["subsample"],
        budget=budget,
        non_private=options["non_private"],
    )


def budget_from(options: dict[str, Any]) -> Budget | None:
    """Return the (epsilon, delta) asked for, or None.

    Raises
    ------
    UsageError
        One of the two alone, values that no release could have, or both for a release without
        noise.
    """
    from primo_scale.gaussian.calibration import release_mu
    from primo_scale.run.design import Budget

    epsilon, delta = options["epsilon"], options["delta"]
    if epsilon is None and delta is None:
        return None
    if options["non_private"]:
        raise UsageError(
            "--non-private adds no noise, and --epsilon and --delta ask for a private release",
            where="--non-private",
            remedy="Leave out --non-private, or --epsilon and --delta",
        )
    if epsilon is None or delta is None:
        raise UsageError("--epsilon and --delta go together", remedy="Give both")
    release_mu(epsilon, delta)
    return Budget(epsilon, delta)


def phenotype_bounds(outcomes: OutcomeChoices) -> tuple[PhenotypeBounds, ...]:
    """Public bounds of the phenotypes asked for, from headers and bounds alone."""
    from primo_scale.outcomes.bounds import read_phenotype_bounds
    from primo_scale.outcomes.tables import open_outcome_table

    table = outcomes.phenotypes
    header = open_outcome_table(table.values)
    names = outcomes.phenotype_names or header.names
    header.check_names(names)  # a mistyped name is not a matter of bounds
    return read_phenotype_bounds(table.bounds, names)


def outcome_coding(
    outcomes: OutcomeChoices, model: ModelChoices, moments: PaidMoments | None
) -> OutcomeCoding:
    """Public coding of the columns asked for, with means and sds that were paid for if any."""
    from primo_scale.outcomes.bounds import read_covariate_bounds
    from primo_scale.outcomes.coding import code_outcomes
    from primo_scale.outcomes.tables import open_outcome_table
    from primo_scale.privacy.phenotype_moments import with_moments
    from primo_scale.run.design_choices import outcome_weight

    phenotypes = phenotype_bounds(outcomes)
    if moments is not None:
        phenotypes = with_moments(phenotypes, moments.bought)
    covariates: tuple[CovariateBounds, ...] = ()
    if outcomes.covariates is not None:
        columns = open_outcome_table(outcomes.covariates.values).names
        covariates = read_covariate_bounds(outcomes.covariates.bounds, columns)
    weight = outcome_weight(len(phenotypes), len(covariates), model)
    return code_outcomes(phenotypes, covariates, weight=weight)


def selection_from(options: dict[str, Any]) -> Selection:
    """Return the people and variants that the options of an ingest select."""
    from primo_scale.genotypes.filters import Selection

    names = ("keep", "remove", "extract", "exclude", "chromosomes")
    return Selection(**{name: options[name] for name in names})


def _bounded(options: dict[str, Any], table: str) -> BoundedTable:
    if options[f"{table}_bounds"] is None:
        raise UsageError(
            "public bounds are needed, since bounds taken from the data would be private",
            where=f"--{table}-bounds",
            remedy="Give a table of name, lower and upper for every column",
        )
    return BoundedTable(options[table], options[f"{table}_bounds"])
