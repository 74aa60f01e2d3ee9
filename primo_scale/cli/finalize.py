"""From exact statistics to a published release: ``python -m pipelines.finalize``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from primo_scale.cli.command_line import (
    CONTEXT,
    ContractCommand,
    debug_option,
    explain_errors,
    log_format_option,
    log_to_terminal,
    open_run_log,
)
from primo_scale.cli.options import (
    PRIVACY,
    budget_options,
    encryption_option,
    ledger_options,
    out_option,
    release_options,
    under,
    work_dir_option,
)
from primo_scale.errors import InputError, UsageError
from primo_scale.interruption import deferred
from primo_scale.run.choices import ReleaseChoices
from primo_scale.run.log_records import LOGGER, stage
from primo_scale.run.payments import log_payment
from primo_scale.run.publishing import Paid, check_publishable, log_genome_build, publish
from primo_scale.run.purge import is_done_and_purged, purge, warn_of_intermediates
from primo_scale.run.release_choices import private_places, release_choices_from
from primo_scale.run.release_directory import (
    charge_of,
    check_private_places,
    exists_already,
    refuse_other_release,
)
from primo_scale.run.work_directory import NOISE, finished_statistics
from primo_scale.storage.locations import Location, parse_location

if TYPE_CHECKING:
    from primo_scale.accumulation.statistics import RawStatistics
    from primo_scale.genotypes.store import GenotypeStore
    from primo_scale.ledger.ledger import Ledger
    from primo_scale.ledger.spending import Account, Charge
    from primo_scale.privacy.noise_store import NoiseStore
    from primo_scale.run.design import Design
    from primo_scale.run.estimation import Chosen


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
    from primo_scale.run.accuracy_forecast import check_summed
    from primo_scale.run.design import load_design
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


@stage("finalize")
def finalize_stage(work_dir: Path, design: Design, choices: ReleaseChoices) -> None:
    """Publish the release of finished statistics, or find that it is published already.

    What can be refused for public reasons is refused before the ledger is asked.
    """
    from primo_scale.accumulation.statistics import open_raw_statistics
    from primo_scale.genotypes.store import open_genotype_store
    from primo_scale.privacy.noise_store import NoiseStore
    from primo_scale.privacy.private_statistics import privatise
    from primo_scale.run.estimation import choose
    from primo_scale.run.release_memory import refuse_small_memory, release_needs

    statistics = finished_statistics(work_dir, design.object_store)
    raw = open_raw_statistics(statistics, design.layout, design.n_samples)
    store = open_genotype_store(parse_location(design.genotype_store))
    _check_belongs(raw, "design", design.digest, work_dir / "design.json")
    _check_belongs(raw, "genotypes", store.identity_digest, store.path)
    check_publishable(store.variants, design.outcomes)
    noise_store = NoiseStore(work_dir / NOISE)
    build = log_genome_build(choices.genome_build, store.variants)
    refuse_other_release(choices, design, build, noise_store.charges())
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
        publish(design, exact, choices, variants=store.variants, chosen=chosen, paid=None)
        return
    if not design.clipped:
        raise UsageError(
            "these statistics are of unclipped rows and can never be private",
            where=work_dir,
            remedy="Run accumulate without --non-private in another --work-dir",
        )
    LOGGER.info("method %s: %s", chosen.method.name, chosen.reason)
    refuse_small_memory(release_needs(design, chosen))
    _release_privately(raw, design, choices, chosen, noise_store, store)


def _check_belongs(raw: RawStatistics, what: str, digest: str, path: Location) -> None:
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
    noise_store: NoiseStore,
    store: GenotypeStore,
) -> None:
    from primo_scale.gaussian.calibration import Cost
    from primo_scale.ledger.cohort_account import find_paying_cohort
    from primo_scale.ledger.ledger import Ledger, default_ledger_path
    from primo_scale.ledger.refusals import lowered_budget
    from primo_scale.privacy.paid_statistics import charge_with_stored_noise, pay_and_draw
    from primo_scale.publication.publish import Signer
    from primo_scale.run.accuracy_forecast import forecast_release
    from primo_scale.run.describe_release import Payment
    from primo_scale.run.estimation import recipe_of
    from primo_scale.run.progress import count_bar

    if choices.budget is None:
        raise UsageError("a private release needs --epsilon and --delta")
    mechanism = design.mechanism(choices.budget, recipe_of(design, chosen))
    path = choices.ledger or default_ledger_path()
    with Ledger(path, create=not noise_store.used_charges()) as ledger:
        ledger.refuse_unknown_charges(noise_store.used_charges())
        paying_cohort = find_paying_cohort(
            ledger,
            store.cohort_digest,
            store.samples.individual,
            choices.cohort,
            unit=design.privacy,
            adjacency=design.adjacency,
        )
        moments = _moments_charges(design, ledger, paying_cohort.account)
        if choices.out.exists():  # refused before paying for what could not be published
            known = charge_with_stored_noise(
                raw, mechanism, noise_store, ledger=ledger, paying_cohort=paying_cohort
            )
            if known is None or known.id != charge_of(choices.out):
                raise exists_already(choices.out)
        with deferred():
            with count_bar("draw noise", "pieces") as move:
                paid = pay_and_draw(
                    raw,
                    mechanism,
                    noise_store,
                    ledger=ledger,
                    paying_cohort=paying_cohort,
                    on_block=move,
                )
            balance = ledger.balance(paying_cohort.account)
            log_payment("statistics", paid.receipt, balance)
        if not balance.affords(Cost(0.0)):
            raise lowered_budget(path, balance)
        charges = (*moments, paid.receipt.charge)
        expected = forecast_release(design, store.variants, mechanism)
        payment = Payment(mechanism, charges, balance, expected.stated_size)
        signer = Signer(ledger.public_key, ledger.sign)
        with noise_store.payment_explained(paid.receipt.charge.id):
            digest = publish(
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


if __name__ == "__main__":
    main()
