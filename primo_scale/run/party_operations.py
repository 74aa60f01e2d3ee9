"""Operations of a release by several parties: roster, release of one party, and joint model."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from primo_scale.errors import Field, UsageError
from primo_scale.gaussian.calibration import NO_COST, check_draws
from primo_scale.gaussian.noise import fine_bits
from primo_scale.genotypes.store import open_genotype_store
from primo_scale.interruption import deferred
from primo_scale.ledger.accounts import Balance, Charge
from primo_scale.ledger.ledger import lowered_budget
from primo_scale.outcomes.coding import BOUNDED_UNIT
from primo_scale.outcomes.tables import open_outcome_table
from primo_scale.parties.columns import (
    GenotypeColumns,
    PartyColumns,
    PhenotypeColumns,
    Roster,
    individuals_of,
    make_roster,
    read_roster,
    survey,
    write_roster,
)
from primo_scale.parties.purchase import PartyValues, party_noise, party_sensitivity, pay_for_values
from primo_scale.privacy.payment import NoiseStore, Payer, open_ledger
from primo_scale.publication.open_release import PartyRelease, open_party_release
from primo_scale.publication.publish import publish_party_release
from primo_scale.publication.weights import check_column_names, check_variant_identifiers
from primo_scale.run.describe_release import state_guarantee, state_ledger_entry
from primo_scale.run.fields import takes
from primo_scale.run.other_requests import PartyReleaseRequest, RosterRequest
from primo_scale.run.payments import log_payment
from primo_scale.run.public_inputs import phenotype_bounds
from primo_scale.run.publishing import (
    check_out,
    check_private_places,
    refuse_damaged,
    refuse_unwritable,
)
from primo_scale.run.run_log import LOGGER, run_logged
from primo_scale.run.work_directory import NOISE, locked
from primo_scale.storage.files import STAGING_NAME_BYTES, files_private, sha256_of_file
from primo_scale.storage.locations import Location
from primo_scale.verify.document import (
    PARTY,
    Mixtures,
    PartyColumn,
    PartyMechanism,
    PartyStatement,
    Software,
)
from primo_scale.verify.files import Signer
from primo_scale.verify.words import KEYSTREAM, public_by_assumption
from primo_scale.version import __version__

_MOST_COLUMNS = 400_000  # party.json, which lists them, has at most 64 MiB


@takes(RosterRequest)
def party_roster(request: RosterRequest) -> Roster:
    """Write the roster of a party's people, or of the people whom all parties have.

    Returns
    -------
    Roster
        Keyed hashes of the people. PRIVATE: only the parties may see them.

    Raises
    ------
    InputError
        A file is malformed, or the parties have nobody in common.
    """
    if not request.out.exists():
        refuse_unwritable(request.out, appended=STAGING_NAME_BYTES)
    with files_private():
        roster = make_roster(_individuals(request.people), request.party_key, [*request.others])
        write_roster(roster, request.out)
    return roster


@takes(PartyReleaseRequest)
def party_release(request: PartyReleaseRequest) -> PartyRelease:
    """Publish noisy values of the columns that one party holds, or find them published.

    Returns
    -------
    PartyRelease
        Published release, also if an earlier run published it.

    Raises
    ------
    InputError, UsageError
        Inputs that are malformed, do not belong together, or cannot be released.
    BudgetRefused
        The ledger refuses to pay for the release.
    ResourceError
        There is too little memory or disk space.
    InterruptedRun
        The run stopped; the same request continues it.
    """
    work_dir = request.work_dir
    ledger = request.ledger_path
    check_private_places(request.out, {Field("work_dir"): work_dir, Field("ledger"): ledger})
    document = check_out(request.out, PARTY)
    published = None if document is None else str(document["ledger"]["charges"][0]["id"])
    with locked(work_dir), run_logged(work_dir, "party-release", request):
        _release(request, ledger, published)
    return open_party_release(request.out)


def _release(request: PartyReleaseRequest, ledger_path: Path, published: str | None) -> None:
    party = _columns(request)
    roster = read_roster(request.roster, request.party_key)
    values = _values(request, party, roster)
    noise_store = NoiseStore(request.work_dir / NOISE)
    promise, people = request.promise, values.survey.individuals
    LOGGER.info("%d of %d people of the roster are in the file", len(people), len(roster))
    with open_ledger(ledger_path, noise_store) as ledger:
        cohort = ledger.paying_cohort(
            roster.tag, people, request.cohort, unit=promise.unit, adjacency=promise.adjacency
        )
        payer = Payer(ledger, cohort, noise_store)
        with deferred():
            path, receipt = pay_for_values(values, promise, payer, published=published)
            balance = log_payment("values", receipt, payer)
        if not balance.affords(NO_COST):
            raise lowered_budget(ledger_path, balance)
        if published is None:
            statement = _statement(request, values, receipt.charge, balance)
            signer = Signer(ledger.public_key, ledger.sign)
            with noise_store.payment_explained(receipt.charge.id):
                publish_party_release(request.out, path, statement, signer)
        else:
            refuse_damaged(request.out, ledger.public_key)
            LOGGER.info("%s: this release is published already", request.out)
        ledger.mark_published(receipt.charge, sha256_of_file(request.out / PARTY.name))


def _values(request: PartyReleaseRequest, party: PartyColumns, roster: Roster) -> PartyValues:
    count, mixtures = len(party.columns), request.mixtures
    covered = request.person_columns or count
    if covered < count:
        raise UsageError(
            "the promise covers fewer columns than this party releases",
            where=Field("person_columns"),
            value=covered,
            limit=f"at least {count}",
        )
    check_draws((mixtures or len(roster)) * covered)
    noise = party_noise(
        request.epsilon, request.delta,
        n_columns=count, n_mixtures=mixtures, person_columns=covered,
    )  # fmt: skip
    public = {
        "party": request.party,
        "columns": [[one.name, one.lower, one.upper] for one in party.columns],
        "mixtures": mixtures,
        "seed": request.seed,
        "person_columns": covered,
    }
    return PartyValues(party, roster, survey(party, roster, request.signs), noise, public)


def _columns(request: PartyReleaseRequest) -> PartyColumns:
    """Return the columns to release, after refusing names that no release can carry."""
    party: PartyColumns
    tables = request.tables
    if tables is not None:
        party = PhenotypeColumns(open_outcome_table(tables.pheno), phenotype_bounds(tables))
    elif request.genotypes is not None:
        store = open_genotype_store(request.genotypes)
        check_variant_identifiers(store.variants.identifier)
        party = GenotypeColumns(store)
    else:
        raise UsageError("a release has the columns of `pheno` or of `genotypes`")
    if len(party.columns) > _MOST_COLUMNS:
        raise UsageError(
            "a release of one party has too many columns",
            value=len(party.columns),
            limit=_MOST_COLUMNS,
            remedy="Release fewer columns, or use primo-scale release",
        )
    check_column_names("column", [column.name for column in party.columns])
    return party


def _individuals(people: Location) -> list[str]:
    """Return the IIDs of a phenotype table or a genotype store."""
    if not isinstance(people, Path) or people.is_dir():
        return list(open_genotype_store(people).samples.individual)
    table = open_outcome_table(people)
    return [iid for group in table.row_groups(()) for iid in individuals_of(group)]


def _statement(
    request: PartyReleaseRequest, values: PartyValues, charge: Charge, balance: Balance
) -> PartyStatement:
    promise, signs = request.promise, request.signs
    count, sigma = values.shape[1], values.noise.sigma
    return PartyStatement(
        software=Software("primo_scale", __version__),
        created=datetime.now(UTC).date().isoformat(),
        party=request.party,
        guarantee=state_guarantee(promise, charge.cost),
        person_columns=request.person_columns or count,
        n_people=len(values.roster),
        alignment=values.roster.tag,
        columns=tuple(PartyColumn(c.name, c.lower, c.upper) for c in values.party.columns),
        mixtures=None if signs is None else Mixtures(signs.n_mixtures, signs.seed),
        mechanism=PartyMechanism(
            unit=BOUNDED_UNIT,
            sensitivity=party_sensitivity(count, request.mixtures),
            sigma=sigma,
            fine_bits=fine_bits(sigma),
            **KEYSTREAM,
        ),
        ledger=state_ledger_entry(balance, charge),
        public_by_assumption=public_by_assumption(str(promise.unit), str(promise.adjacency)),
    )
