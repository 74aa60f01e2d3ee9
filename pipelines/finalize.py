"""From exact statistics to a published release: ``python -m pipelines.finalize``."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipelines.choices import budget_from
from pipelines.command_line import (
    CONTEXT,
    LOGGER,
    ContractCommand,
    debug_option,
    explain_errors,
    log_format_option,
    log_to_terminal,
    open_run_log,
    stage,
)
from pipelines.log_lines import about
from pipelines.options import (
    PRIVACY,
    budget_options,
    encryption_option,
    ledger_options,
    out_option,
    release_options,
    under,
    work_dir_option,
)
from pipelines.payments import log_payment
from pipelines.purge import is_done_and_purged, purge, warn_of_intermediates
from pipelines.release_place import (
    charge_of,
    check_out,
    check_private_places,
    exists_already,
    refuse_damaged,
    refuse_other_release,
)
from pipelines.work_places import NOISE, finished_statistics
from primo_scale.errors import InputError, UsageError
from primo_scale.interruption import deferred
from primo_scale.storage.places import Place, place

if TYPE_CHECKING:
    from pipelines.design import Budget, Design
    from pipelines.estimation import Chosen, MethodChoices, Solved
    from pipelines.release_statement import Payment
    from primo_scale.accumulate.statistics import RawStatistics
    from primo_scale.genotypes.genome_build import GenomeBuild
    from primo_scale.genotypes.store import GenotypeStore
    from primo_scale.genotypes.tables import VariantTable
    from primo_scale.outcomes.coding import OutcomeCoding
    from primo_scale.privacy.ledger import Ledger
    from primo_scale.privacy.noise_at_hand import NoiseAtHand
    from primo_scale.privacy.private_statistics import PrivateStatistics
    from primo_scale.privacy.spending import Account, Charge
    from primo_scale.release.publish import Signer
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
class Paid:
    """What makes a release private in the eyes of others: its payment and the signature."""

    payment: Payment
    signer: Signer


@click.command(cls=ContractCommand, context_settings=CONTEXT)
@work_dir_option(required=True)
@budget_options
@out_option("The release directory; must not exist.")
@under(
    PRIVACY,
    [click.option("--non-private", is_flag=True, help="No noise; stamps every file NOT PRIVATE.")],
)
@release_options
@ledger_options
@encryption_option
@log_format_option
@debug_option
@explain_errors
def main(work_dir: Path, **options: Any) -> None:
    """Pay, add noise once, solve every phenotype, and publish the weights."""
    from pipelines.accuracy_forecast import check_summed
    from pipelines.design import load_design
    from primo_scale.storage.encryption import use_key_file
    from primo_scale.storage.files import exclusive_lock

    use_key_file(options["encryption_key"])
    choices = release_choices_from(options)
    check_private_places(choices.out, private_places(work_dir, choices))
    if not work_dir.is_dir():
        raise InputError("no such work directory", where=work_dir, remedy="Run accumulate first")
    with exclusive_lock(work_dir / "lock"):
        log_to_terminal()
        shown = {"work_dir": work_dir, **options}
        if is_done_and_purged(work_dir, shown):
            click.echo(f"release: {choices.out}")
            return
        open_run_log(work_dir / "run.log", "finalize", shown)
        design = load_design(work_dir / "design.json")
        check_summed(design, choices, accept_noise=options["accept_noise"])
        finalize_stage(work_dir, design, choices)
        if options["purge_intermediates"]:
            purge(work_dir, choices.out, shown, genotypes=False)
        else:
            warn_of_intermediates(work_dir)


def release_choices_from(options: dict[str, Any]) -> ReleaseChoices:
    """Read the options of a release.

    Raises
    ------
    UsageError
        No (epsilon, delta) for a private release, or both for one without noise; a ridge that is
        no penalty.
    InputError
        Something that is no release lies at ``--out``.
    """
    from pipelines.estimation import MethodChoices

    check_out(options["out"])
    budget = budget_from(options)
    if budget is None and not options["non_private"]:
        raise UsageError(
            "a private release needs --epsilon and --delta",
            remedy="Give both, or --non-private for a validation run that protects nobody",
        )
    return ReleaseChoices(
        out=options["out"],
        budget=budget,
        methods=MethodChoices(
            options["method"], options["shrinkage"], _ridge_from(options["ridge"])
        ),
        ledger=options["ledger"],
        cohort=options["cohort"],
        genome_build=options["genome_build"],
    )


def private_places(work_dir: Path, choices: ReleaseChoices) -> dict[str, Path]:
    """Where a release writes what it must not publish, by option."""
    from primo_scale.privacy.ledger import default_ledger_path

    return {"--work-dir": work_dir, "--ledger": choices.ledger or default_ledger_path()}


@stage("finalize")
def finalize_stage(work_dir: Path, design: Design, choices: ReleaseChoices) -> None:
    """Publish the release of finished statistics, or find that it is published already.

    What can be refused for public reasons is refused before the ledger is asked.
    """
    from pipelines.estimation import choose
    from pipelines.release_needs import refuse_small_memory, release_needs
    from primo_scale.accumulate.statistics import open_raw_statistics
    from primo_scale.genotypes.store import open_genotype_store
    from primo_scale.privacy.noise_at_hand import NoiseAtHand
    from primo_scale.privacy.private_statistics import privatise

    statistics = finished_statistics(work_dir, design.object_store)
    raw = open_raw_statistics(statistics, design.layout, design.n_samples)
    store = open_genotype_store(place(design.genotype_store))
    _check_belongs(raw, "design", design.digest, work_dir / "design.json")
    _check_belongs(raw, "genotypes", store.identity_digest, store.path)
    check_publishable(store.variants, design.outcomes)
    at_hand = NoiseAtHand(work_dir / NOISE)
    build = log_genome_build(choices.genome_build, store.variants)
    refuse_other_release(choices, design, build, at_hand.charges())
    promise = None if choices.budget is None else design.promise(choices.budget)
    chosen = choose(design, promise, choices.methods)
    if choices.budget is None and design.subsample is not None:
        raise UsageError(
            "the subsample of these statistics is secret: its X'X is never shown without noise",
            where=work_dir,
            remedy="Run accumulate with --non-private in another --work-dir",
        )
    if choices.budget is None:
        refuse_small_memory(release_needs(design, chosen))
        exact = privatise(raw, None)
        _publish(design, exact, choices, variants=store.variants, chosen=chosen, paid=None)
        return
    if not design.clipped:
        raise UsageError(
            "these statistics are of unclipped rows and can never be private",
            where=work_dir,
            remedy="Run accumulate without --non-private in another --work-dir",
        )
    LOGGER.info("method %s: %s", chosen.method.name, chosen.reason)
    refuse_small_memory(release_needs(design, chosen))
    _release_privately(raw, design, choices, chosen, at_hand, store)


def check_publishable(variants: VariantTable, outcomes: OutcomeCoding) -> None:
    """Refuse names that no release can carry, before any work is done or any budget spent.

    Raises
    ------
    InputError
        Repeated or reserved variant IDs; names of columns that a file cannot hold; texts that are
        formulas to a spreadsheet.
    """
    from primo_scale.release.formulas import refuse_formulas
    from primo_scale.release.pgs import pgs_file_stems
    from primo_scale.release.weights import check_column_names, check_variant_identifiers

    check_variant_identifiers(variants.identifier)
    phenotypes = [p.name for p in outcomes.phenotypes]
    check_column_names("phenotype", phenotypes)
    covariates = [c.name for c in outcomes.covariates]
    check_column_names("covariate", covariates)
    refuse_formulas(variants, phenotypes=phenotypes, covariates=covariates)
    pgs_file_stems(phenotypes)


def log_genome_build(given: str | None, variants: VariantTable) -> GenomeBuild:
    """Log and return the genome build that a release will state; warn where it will state none.

    Raises
    ------
    InputError
        Known variants lie where another build than the given one has them.
    """
    from primo_scale.genotypes.genome_build import NOT_REPORTED, settle_genome_build

    build = settle_genome_build(given, variants)
    LOGGER.info("genome build: %s (%s)", build.name, build.source)
    if given is None and build.name == NOT_REPORTED:
        LOGGER.warning(
            "tools of the PGS Catalog refuse scoring files without a genome build: give "
            "--genome-build GRCh37 or --genome-build GRCh38"
        )
    return build


def _check_belongs(raw: RawStatistics, what: str, digest: str, path: Place) -> None:
    """Refuse anything but what the statistics were made with: the guarantee is about that."""
    if raw.inputs[what] != digest:
        raise InputError(
            f"this is not the {what} that the statistics were made with",
            where=str(path),
            remedy="Run accumulate again, in another --work-dir",
        )


def _release_privately(
    raw: RawStatistics,
    design: Design,
    choices: ReleaseChoices,
    chosen: Chosen,
    at_hand: NoiseAtHand,
    store: GenotypeStore,
) -> None:
    from pipelines.accuracy_forecast import forecast_release
    from pipelines.estimation import recipe_of
    from pipelines.progress import count_bar
    from pipelines.release_statement import Payment
    from primo_scale.privacy.ledger import Ledger, default_ledger_path
    from primo_scale.privacy.paid_statistics import charge_taken_up, pay_and_draw
    from primo_scale.privacy.payer import payer_of
    from primo_scale.release.publish import Signer

    if choices.budget is None:
        raise UsageError("a private release needs --epsilon and --delta")
    mechanism = design.mechanism(choices.budget, recipe_of(design, chosen))
    path = choices.ledger or default_ledger_path()
    with Ledger(path, create=not at_hand.used()) as ledger:
        ledger.refuse_unknown_charges(at_hand.used())
        payer = payer_of(
            ledger,
            store.cohort_digest,
            store.samples.individual,
            choices.cohort,
            unit=design.privacy,
            adjacency=design.adjacency,
        )
        moments = _moments_charges(design, ledger, payer.account)
        if choices.out.exists():  # refused before paying for what could not be published
            known = charge_taken_up(raw, mechanism, at_hand, ledger=ledger, payer=payer)
            if known is None or known.id != charge_of(choices.out):
                raise exists_already(choices.out)
        with deferred():
            with count_bar("draw noise", "pieces") as move:
                paid = pay_and_draw(
                    raw, mechanism, at_hand, ledger=ledger, payer=payer, on_block=move
                )
            balance = ledger.balance(payer.account)
            log_payment("statistics", paid.receipt, balance)
        charges = (*moments, paid.receipt.charge)
        expected = forecast_release(design, store.variants, mechanism)
        payment = Payment(mechanism, charges, balance, expected.stated_size)
        signer = Signer(ledger.public_key, ledger.sign)
        with at_hand.payment_explained(paid.receipt.charge.id):
            digest = _publish(
                design, paid.private, choices,
                variants=store.variants, chosen=chosen, paid=Paid(payment, signer),
            )  # fmt: skip
            for charge in charges:
                ledger.mark_published(charge, digest)


def _moments_charges(design: Design, ledger: Ledger, account: Account) -> tuple[Charge, ...]:
    """The charge for the phenotype moments, if they were bought; refused if another budget paid."""
    if design.moments is None:
        return ()
    bought = design.moments.bought.charge
    charges = tuple(c for c in ledger.balance(account).charges if c.id == bought)
    if not charges:
        raise InputError(
            "the phenotype moments were paid for from another account",
            where="--ledger, --cohort",
            value=bought,
            remedy="Give the --ledger and --cohort that accumulate was given",
        )
    return charges


def _publish(
    design: Design,
    private: PrivateStatistics,
    choices: ReleaseChoices,
    *,
    variants: VariantTable,
    chosen: Chosen,
    paid: Paid | None,
) -> str:
    """Solve and publish; return the SHA-256 of release.json."""
    from threadpoolctl import threadpool_limits

    from pipelines.estimation import solve_release
    from pipelines.release_statement import make_statement
    from primo_scale.genotypes.genome_build import settle_genome_build
    from primo_scale.machine import usable_cpus
    from primo_scale.release.publish import is_same_release, publish_release
    from primo_scale.storage.files import sha256_of_file

    # A local Dask cluster leaves one BLAS thread in this process's environment.
    with threadpool_limits(limits=usable_cpus()):
        solved = solve_release(design, private, chosen, ridge=choices.methods.ridge)
    payment = None if paid is None else paid.payment
    build = settle_genome_build(choices.genome_build, variants)
    statement = make_statement(design, solved, payment, genome_build=build)
    if choices.out.exists():
        if not is_same_release(choices.out, statement):
            raise exists_already(choices.out)
        refuse_damaged(choices.out)
        LOGGER.info("%s: this release is published already", choices.out)
    else:
        weights = _scoring_weights(design, solved, variants)
        publish_release(
            choices.out,
            weights,
            statement,
            _public_options(design, choices, build.name),
            signer=None if paid is None else paid.signer,
        )
    LOGGER.info("%s", statement.stamp)
    LOGGER.info("effective sample size %.6g", statement.accuracy.effective_sample_size)
    click.echo(f"release: {choices.out}")
    out = choices.out.absolute()
    log_scoring_command(choices.out)
    LOGGER.debug("published %s", out, extra=about("published", {"out": out}))
    return sha256_of_file(choices.out / "release.json")


def log_scoring_command(release: Path) -> None:
    """Log the plink2 command that computes the scores of a published release."""
    from primo_scale.release.scoring import scoring_command

    document = json.loads((release / "release.json").read_bytes())
    LOGGER.info("to score people: %s", " ".join(scoring_command(document, release)))


def _scoring_weights(design: Design, solved: Solved, variants: VariantTable) -> ScoringWeights:
    from primo_scale.methods.dosage_scale import to_dosage_scale
    from primo_scale.release.weights import ScoringWeights

    raw_scale = to_dosage_scale(
        solved.solution.weights, design.genotypes, design.outcomes, solved.response
    )
    return ScoringWeights(
        variants=variants,
        phenotypes=tuple(p.name for p in design.outcomes.phenotypes),
        per_allele=raw_scale.per_allele,
        intercept=raw_scale.intercept,
        covariates=tuple(c.name for c in design.outcomes.covariates),
        covariate_weights=raw_scale.covariates,
        centre_dosage=design.genotypes.centre_dosage,
    )


def _public_options(design: Design, choices: ReleaseChoices, build: str) -> dict[str, str]:
    """Options that the release may repeat: no path, nothing of the custodian's own."""
    options = {
        "ld-blocks": Path(design.ld_blocks).name,
        "privacy": str(design.privacy),
        "adjacency": str(design.adjacency),
        "method": choices.methods.method,
        "shrinkage": choices.methods.shrinkage or "auto",
        "ridge": "auto" if choices.methods.ridge is None else f"{choices.methods.ridge:g}",
        "genome-build": build,
    }
    if design.nominal_n is not None:
        options["nominal-n"] = str(design.nominal_n)
    if design.subsample is not None:
        options["subsample"] = str(design.subsample)
    if design.reference is not None:
        options["ref-freq"] = design.reference["file"]
    if choices.budget is None:
        return {**options, "non-private": "yes"}
    return {
        **options,
        "epsilon": f"{choices.budget.epsilon!r}",
        "delta": f"{choices.budget.delta!r}",
    }


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
