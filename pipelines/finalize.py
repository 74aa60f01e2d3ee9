"""From exact statistics to a published release: ``python -m pipelines.finalize``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipelines.accumulate import budget_from
from pipelines.command_line import (
    CONTEXT,
    LOGGER,
    ContractCommand,
    debug_option,
    explain_errors,
    interruptions_deferred,
    open_run_log,
)
from pipelines.options import (
    budget_options,
    out_option,
    release_options,
    work_dir_option,
)
from primo_scale.errors import InputError, UsageError

if TYPE_CHECKING:
    from pipelines.design import Budget, Design
    from pipelines.estimation import Estimate
    from pipelines.release_statement import Payment
    from primo_scale.accumulate.statistics import RawStatistics
    from primo_scale.genotypes.tables import VariantTable
    from primo_scale.methods.linear_model import LatticeWeights
    from primo_scale.outcomes.coding import OutcomeCoding
    from primo_scale.privacy.clip_response import ClipResponse
    from primo_scale.privacy.mechanism import GramMechanism
    from primo_scale.privacy.noise_at_hand import NoiseAtHand
    from primo_scale.privacy.private_statistics import PrivateStatistics
    from primo_scale.release.weights import ScoringWeights


@dataclass(frozen=True)
class ReleaseChoices:
    """What to release and on whose budget.

    Attributes
    ----------
    out
        The release directory.
    budget
        (epsilon, delta), or None for a release stamped NOT PRIVATE.
    ridge
        Penalty as given, or None for automatic.
    ledger, cohort
        Ledger file and name of the cohort in it, where not the defaults.
    genome_build
        Of the positions.
    """

    out: Path
    budget: Budget | None
    ridge: float | None
    ledger: Path | None
    cohort: str | None
    genome_build: str


@click.command(cls=ContractCommand, context_settings=CONTEXT)
@work_dir_option(required=True)
@budget_options
@out_option("The release directory; must not exist.")
@click.option("--non-private", is_flag=True, help="No noise; stamps every file NOT PRIVATE.")
@release_options
@debug_option
@explain_errors
def main(work_dir: Path, **options: Any) -> None:
    """Pay, add noise once, solve every phenotype, and publish the weights."""
    from pipelines.design import load_design
    from primo_scale.storage.files import exclusive_lock

    choices = release_choices_from(options)
    if not work_dir.is_dir():
        raise InputError("no such work directory", where=work_dir, remedy="Run accumulate first")
    with exclusive_lock(work_dir / "lock"):
        open_run_log(work_dir / "run.log", "finalize", {"work_dir": work_dir, **options})
        finalize_stage(work_dir, load_design(work_dir / "design.json"), choices)


def release_choices_from(options: dict[str, Any]) -> ReleaseChoices:
    """Read the options of a release.

    Raises
    ------
    UsageError
        No (epsilon, delta) for a private release, or a ridge that is no penalty.
    InputError
        Something that is no release lies at ``--out``.
    """
    _check_out(options["out"])
    budget = None if options["non_private"] else budget_from(options)
    if budget is None and not options["non_private"]:
        raise UsageError(
            "a private release needs --epsilon and --delta",
            remedy="Give both, or --non-private for a validation run that protects nobody",
        )
    return ReleaseChoices(
        out=options["out"],
        budget=budget,
        ridge=_ridge_from(options["ridge"]),
        ledger=options["ledger"],
        cohort=options["cohort"],
        genome_build=options["genome_build"],
    )


def finalize_stage(work_dir: Path, design: Design, choices: ReleaseChoices) -> None:
    """Publish the release of finished statistics, or find that it is published already.

    What can be refused for public reasons is refused before the ledger is asked.
    """
    from primo_scale.accumulate.statistics import open_raw_statistics
    from primo_scale.genotypes.store import open_genotype_store
    from primo_scale.privacy.noise_at_hand import NoiseAtHand
    from primo_scale.privacy.private_statistics import privatise

    raw = open_raw_statistics(work_dir / "statistics.zarr", design.layout, design.n_samples)
    store = open_genotype_store(Path(design.genotype_store))
    _check_belongs(raw, "design", design.digest, work_dir / "design.json")
    _check_belongs(raw, "genotypes", store.identity_digest, store.path)
    check_publishable(store.variants, design.outcomes)
    if choices.budget is None:
        _publish(design, privatise(raw, None), choices, payment=None)
        return
    if not design.clipped:
        raise UsageError(
            "these statistics are of unclipped rows and can never be private",
            where=work_dir,
            remedy="Run accumulate without --non-private in another --work-dir",
        )
    at_hand = NoiseAtHand(work_dir / "private_statistics")
    if choices.out.exists() and _charge_of(choices.out) not in at_hand.charges():
        raise _exists_already(choices.out)  # before paying for what could not be published
    _release_privately(raw, design, choices, at_hand, store.cohort_digest)


def check_publishable(variants: VariantTable, outcomes: OutcomeCoding) -> None:
    """Refuse names that no release can carry, before any work is done or any budget spent.

    Raises
    ------
    InputError
        Repeated or reserved variant IDs; names of columns that a file cannot hold.
    """
    from primo_scale.release.pgs import pgs_file_stems
    from primo_scale.release.weights import check_column_names, check_variant_identifiers

    check_variant_identifiers(variants.identifier)
    phenotypes = [p.name for p in outcomes.phenotypes]
    check_column_names("phenotype", phenotypes)
    check_column_names("covariate", [c.name for c in outcomes.covariates])
    pgs_file_stems(phenotypes)


def _check_belongs(raw: RawStatistics, what: str, digest: str, path: Path) -> None:
    """Refuse anything but what the statistics were made with: the guarantee is about that."""
    if raw.inputs[what] != digest:
        raise InputError(
            f"this is not the {what} that the statistics were made with",
            where=path,
            remedy="Run accumulate again, in another --work-dir",
        )


def _release_privately(
    raw: RawStatistics,
    design: Design,
    choices: ReleaseChoices,
    at_hand: NoiseAtHand,
    cohort_digest: str,
) -> None:
    from pipelines.progress import progress_bar
    from pipelines.release_statement import Payment
    from primo_scale.privacy.ledger import Ledger, default_ledger_path
    from primo_scale.privacy.paid_statistics import Payer, pay_and_draw

    mechanism = _calibrated(design, choices)
    with Ledger(choices.ledger or default_ledger_path()) as ledger:
        people = ledger.cohort_identifier(cohort_digest)
        account = ledger.account_named(choices.cohort or people)
        with interruptions_deferred(), progress_bar("draw noise") as move:
            paid = pay_and_draw(
                raw,
                mechanism,
                at_hand,
                ledger=ledger,
                payer=Payer(account, people),
                on_block=move,
            )
        balance = ledger.balance(account)
        LOGGER.info("%s", paid.history)
        if paid.opened_budget:
            LOGGER.info(
                "the cohort %s had no budget: it now has epsilon %g at delta %g, all of it spent "
                "by this release; for more: python -m pipelines.ledger set-budget",
                account.short_name, balance.budget.epsilon, balance.budget.delta,
            )  # fmt: skip
        payment = Payment(mechanism, paid.charge, balance)
        digest = _publish(design, paid.private, choices, payment=payment)
        ledger.mark_published(paid.charge, digest)


def _calibrated(design: Design, choices: ReleaseChoices) -> GramMechanism:
    from primo_scale.privacy.mechanism import PublicBounds, calibrate
    from primo_scale.privacy.planning import split_for

    if choices.budget is None:
        raise UsageError("a private release needs --epsilon and --delta")
    bounds = PublicBounds(
        row_norm=design.row_norm,
        outcome_norm=design.outcome_norm,
        n_samples=design.n_samples,
        n_phenotypes=design.layout.n_phenotypes,
    )
    split = split_for(design.sizes, outcome_norm=design.outcome_norm)
    return calibrate(
        bounds, epsilon=choices.budget.epsilon, delta=choices.budget.delta, split=split
    )


def _publish(
    design: Design,
    private: PrivateStatistics,
    choices: ReleaseChoices,
    *,
    payment: Payment | None,
) -> str:
    """Solve and publish; return the SHA-256 of release.json."""
    from pipelines.release_statement import make_statement
    from primo_scale.release.publish import is_same_release, publish_release
    from primo_scale.storage.files import sha256_of_file

    lattice, estimate = _solve(design, private, choices.ridge)
    statement = make_statement(design, estimate, payment, genome_build=choices.genome_build)
    if choices.out.exists():
        if not is_same_release(choices.out, statement):
            raise _exists_already(choices.out)
        LOGGER.info("%s: this release is published already", choices.out)
    else:
        weights = _scoring_weights(design, lattice, estimate.response)
        publish_release(choices.out, weights, statement, _public_options(design, choices))
    LOGGER.info("%s", statement.stamp)
    LOGGER.info("effective sample size %.6g", statement.accuracy.effective_sample_size)
    click.echo(f"release: {choices.out}")
    return sha256_of_file(choices.out / "release.json")


def _solve(
    design: Design, private: PrivateStatistics, shrinkage_given: float | None
) -> tuple[LatticeWeights, Estimate]:
    """Weights on the lattice and how they were estimated."""
    from threadpoolctl import threadpool_limits

    from pipelines.estimation import choose_shrinkage, noise_scales
    from primo_scale.machine import usable_cpus
    from primo_scale.methods.linear_model import missing_rescale, solve

    rescale = missing_rescale(private.matrices.observed().astype(float), private.n_samples)
    shrinkage, estimate = choose_shrinkage(design, private.mechanism, rescale, shrinkage_given)
    # A local Dask cluster leaves one BLAS thread in this process's environment.
    with threadpool_limits(limits=usable_cpus()):
        lattice = solve(private.matrices, noise_scales(private.mechanism), rescale, shrinkage)
    return lattice, estimate


def _scoring_weights(
    design: Design, lattice: LatticeWeights, response: ClipResponse
) -> ScoringWeights:
    from primo_scale.genotypes.store import open_genotype_store
    from primo_scale.methods.dosage_scale import to_dosage_scale
    from primo_scale.release.weights import ScoringWeights

    raw_scale = to_dosage_scale(lattice, design.genotypes, design.outcomes, response)
    return ScoringWeights(
        variants=open_genotype_store(Path(design.genotype_store)).variants,
        phenotypes=tuple(p.name for p in design.outcomes.phenotypes),
        per_allele=raw_scale.per_allele,
        intercept=raw_scale.intercept,
        covariates=tuple(c.name for c in design.outcomes.covariates),
        covariate_weights=raw_scale.covariates,
        centre_dosage=design.genotypes.centre_dosage,
    )


def _public_options(design: Design, choices: ReleaseChoices) -> dict[str, str]:
    """Options that the release may repeat: no path, nothing of the custodian's own."""
    options = {
        "ld-blocks": Path(design.ld_blocks).name,
        "ridge": "auto" if choices.ridge is None else f"{choices.ridge:g}",
        "genome-build": choices.genome_build,
    }
    if design.reference is not None:
        options["ref-freq"] = design.reference["file"]
    if choices.budget is None:
        return {**options, "non-private": "yes"}
    return {
        **options,
        "epsilon": f"{choices.budget.epsilon!r}",
        "delta": f"{choices.budget.delta!r}",
    }


def _check_out(out: Path) -> None:
    """Refuse a place where no release can be published, before any work is done."""
    import os

    if (out.exists() or out.is_symlink()) and _read_release(out) is None:
        raise _exists_already(out)
    ancestor = next(parent for parent in out.absolute().parents if parent.exists())
    if not ancestor.is_dir() or not os.access(ancestor, os.W_OK):
        raise InputError(
            "cannot be created", where=out, remedy="Choose a directory you may write to"
        )


def _charge_of(out: Path) -> str | None:
    """The charge a published release was paid with; None if it was not paid for."""
    ledger = (_read_release(out) or {}).get("ledger")
    return str(ledger["charge"]) if isinstance(ledger, dict) else None


def _read_release(out: Path) -> dict[str, Any] | None:
    """The release.json at `out`, or None if that is no release."""
    import json

    path = out / "release.json"
    try:
        document = json.loads(path.read_bytes()) if path.is_file() else None
    except ValueError:
        return None
    return document if isinstance(document, dict) and "ledger" in document else None


def _exists_already(out: Path) -> InputError:
    return InputError(
        "exists already and is not this release",
        where=out,
        remedy="Choose another --out; a release is never overwritten",
    )


def _ridge_from(text: str) -> float | None:
    if text == "auto":
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise UsageError(
            "the ridge is neither auto nor a penalty", where="--ridge", value=text, limit=">= 0"
        )
    return value


if __name__ == "__main__":
    main()
