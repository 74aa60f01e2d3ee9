"""Release of the columns of one party: request, noise, payment and statement, and its roster.

The noise is drawn in the only safe order: key, charge, noise, values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen

from primo_scale.errors import Field, UsageError
from primo_scale.gaussian.calibration import NO_COST, Cost, check_draws, release_mu
from primo_scale.gaussian.noise import KeystreamNoise, check_sigma, fine_bits, lattice_noise
from primo_scale.genotypes.store import open_genotype_store
from primo_scale.interruption import deferred
from primo_scale.kernels.products import Int64
from primo_scale.ledger.accounts import Balance, Charge
from primo_scale.ledger.ledger import PaymentStep, Receipt, announce_step, lowered_budget
from primo_scale.outcomes.coding import BOUNDED_UNIT
from primo_scale.outcomes.tables import open_outcome_table
from primo_scale.parties import columns
from primo_scale.privacy.mechanism import Promise, rounded_up
from primo_scale.privacy.payment import NoiseStore, Payer, open_ledger, pay_once, record_drawn
from primo_scale.publication import open_release, publish, weights
from primo_scale.run import fields, payments, public_inputs, publishing, run_log, work_directory
from primo_scale.run.fields import NEEDED, Checked, Kind, option, read_fields, takes
from primo_scale.run.options import FILES, PRIVACY, RELEASE, OutcomeTables, Payment, beside_release
from primo_scale.storage import files, locations
from primo_scale.storage.resuming import NEVER_OVERWRITTEN, of_other_request
from primo_scale.verify import document, words
from primo_scale.verify.document import PARTY
from primo_scale.verify.files import Signer
from primo_scale.version import __version__

_MOST_COLUMNS = 400_000  # party.json, which lists them, has at most 64 MiB
_VALUE = np.dtype("<i8")
_DRAWS_AT_A_TIME = 1 << 22


def _seed(value: Any, _: str) -> str:
    if not re.fullmatch("[0-9a-f]{32}", value.lower()):
        raise UsageError(
            "is no seed",
            value=value,
            limit="32 hexadecimal digits",
            remedy="Take the SHA-256 of a text that all parties agree on, and its first digits",
        )
    return str(value.lower())


@frozen(slots=False, kw_only=True, eq=False, repr=False, field_transformer=read_fields)
class RosterRequest(Checked):
    """Roster of a party's people, or of the people whom all parties have.

    Attributes
    ----------
    people
        Phenotype table or genotype store of this party, for the IIDs.
    party_key
        The key that the parties share (primo-scale key new makes one).
    others
        Roster of another party: only people of all rosters are kept. Repeatable.
    out
        Roster to write. PRIVATE.
    """

    people: locations.Location = option(fields.LOCATION, default=NEEDED)
    party_key: Path = option(fields.FILE, default=NEEDED)
    others: tuple[Path, ...] = option(fields.several(fields.FILE, repeats=True), default=())
    out: Path = option(fields.FILE, default=NEEDED)


@frozen(slots=False, kw_only=True, eq=False, repr=False, field_transformer=read_fields)
class PartyReleaseRequest(Payment):
    """Release of the columns that one party holds of the people of all parties.

    Attributes
    ----------
    party
        Public name of this party.
    roster
        The parties' roster (party roster).
    party_key
        The key that the parties share.
    pheno
        Table of the columns to release.
    pheno_bounds
        Public bounds: name, lower, upper.
    pheno_name
        Only these columns.
    genotypes
        Genotype store whose variants are the columns, in place of `pheno`.
    epsilon
        Privacy parameter epsilon.
    delta
        Privacy parameter delta.
    person_columns
        Columns of all parties together: epsilon and delta then hold for a person and all parties
        (default: for this release alone).
    mixtures
        Release K random mixtures of the people in place of their rows.
    seed
        Public seed of the mixtures, the same for all parties.
    out
        The release directory to publish.
    work_dir
        Private directory for intermediate files (OUT.work).
    """

    HEADING = "Columns and people"

    party: str = option(fields.TEXT, default=NEEDED)
    roster: Path = option(fields.FILE, default=NEEDED)
    party_key: Path = option(fields.FILE, default=NEEDED)
    pheno: Path | None = option(fields.FILE)
    pheno_bounds: Path | None = option(fields.FILE)
    pheno_name: tuple[str, ...] | None = option(fields.NAMES)
    genotypes: locations.Location | None = option(fields.LOCATION)
    epsilon: float = option(fields.number(), default=NEEDED, heading=PRIVACY)
    delta: float = option(fields.number(), default=NEEDED, heading=PRIVACY)
    person_columns: int | None = option(fields.count(), heading=PRIVACY)
    mixtures: int | None = option(fields.count(metavar="K"), heading=PRIVACY, needs="seed")
    seed: str | None = option(
        Kind("hexadecimal digits", _seed, "HEX"), heading=PRIVACY, needs="mixtures"
    )
    out: Path = option(RELEASE, default=NEEDED, heading=FILES)
    _work_dir: Path | None = option(fields.PATH, heading=FILES)

    def check(self) -> None:
        """Refuse choices that exclude each other, or that lack a part."""
        if not self.party.strip() or not self.party.isprintable():
            raise UsageError(
                "is no name of a party",
                where=Field("party"),
                value=repr(self.party),
                remedy="Give printable text on one line",
            )
        release_mu(self.epsilon, self.delta)
        if (self.tables is None) == (self.genotypes is None):
            what = "a release has the columns of `pheno` or of `genotypes`"
            raise UsageError(what, remedy="Give one of them")

    @property
    def work_dir(self) -> Path:
        """Private directory of the run."""
        return self._work_dir or beside_release(self.out)

    @property
    def tables(self) -> OutcomeTables | None:
        """Table of the columns with its public bounds, or None where genotypes are released."""
        if self.pheno is None:
            return None
        return OutcomeTables(self.pheno, self.pheno_bounds, pheno_name=self.pheno_name)

    @property
    def promise(self) -> Promise:
        """Promise about a person's whole row, which a neighbouring cohort replaces by any other."""
        return Promise(self.epsilon, self.delta)

    @property
    def stated_mixtures(self) -> document.Mixtures | None:
        """Number and seed of the mixtures, or None where rows are released."""
        if self.mixtures is None or self.seed is None:
            return None
        return document.Mixtures(self.mixtures, self.seed)


@takes(RosterRequest)
def party_roster(request: RosterRequest) -> columns.Roster:
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
        publishing.refuse_unwritable(request.out)
    with files.files_private():
        people = request.people
        if not isinstance(people, Path) or people.is_dir():
            individuals = list(open_genotype_store(people).samples.individual)
        else:
            rows = open_outcome_table(people).row_groups(())
            individuals = [iid for ids, *_ in rows for iid in columns.individuals_of(ids)]
        roster = columns.make_roster(individuals, request.party_key, request.others)
        columns.write_roster(roster, request.out)
    return roster


@takes(PartyReleaseRequest)
def party_release(request: PartyReleaseRequest) -> open_release.PartyRelease:
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
    work_dir, ledger = request.work_dir, request.ledger_path
    there = publishing.check_out(request.out, work_dir, ledger, PARTY)
    published = None if there is None else str(there["ledger"]["charge"])
    with work_directory.locked(work_dir), run_log.run_logged(work_dir, "party-release", request):
        _release(request, ledger, published)
    return open_release.open_party_release(request.out)


def _release(request: PartyReleaseRequest, ledger_path: Path, published: str | None) -> None:
    party = _columns(request)
    roster = columns.read_roster(request.roster, request.party_key)
    values, people = _values(request, party, roster)
    noise_store, promise = NoiseStore(request.work_dir / work_directory.NOISE), request.promise
    run_log.LOGGER.info("%d of %d people of the roster are in the file", len(people), len(roster))
    with open_ledger(ledger_path, noise_store) as ledger:
        cohort = ledger.paying_cohort(
            roster.tag, people, request.cohort, unit=promise.unit, adjacency=promise.adjacency
        )
        payer = Payer(ledger, noise_store, *cohort)
        with deferred():
            path, receipt = pay_for_values(values, promise, payer, published=published)
            balance = payments.log_payment("values", receipt, payer)
        if not balance.affords(NO_COST):
            raise lowered_budget(ledger_path, balance)
        if published is None:
            statement = _statement(request, values, receipt.charge, balance)
            signer = Signer(ledger.public_key, ledger.sign)
            with noise_store.payment_explained(receipt.charge.id):
                publish.publish_party_release(request.out, path, statement, signer)
        else:
            publishing.refuse_damaged(request.out, ledger.public_key)
            run_log.LOGGER.info("%s: this release is published already", request.out)
        ledger.mark_published(receipt.charge, files.sha256_of_file(request.out / PARTY.name))


def _values(
    request: PartyReleaseRequest, party: columns.PartyColumns, roster: columns.Roster
) -> tuple[PartyValues, list[str]]:
    """Return the values to release, and the people of the roster whom the party knows."""
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
    people, digest, sums = columns.survey(party, roster, request.stated_mixtures)
    return PartyValues(party, roster, digest, sums, *noise, public), people


def _columns(request: PartyReleaseRequest) -> columns.PartyColumns:
    """Return the columns to release, after refusing names that no release can carry."""
    tables = request.tables
    if tables is not None:
        table = open_outcome_table(tables.pheno)
        party = columns.phenotype_columns(table, public_inputs.phenotype_bounds(tables))
    elif request.genotypes is not None:
        store = open_genotype_store(request.genotypes)
        weights.check_variant_identifiers(store.variants.identifier)
        party = columns.genotype_columns(store)
    if len(party.columns) > _MOST_COLUMNS:
        raise UsageError(
            "a release of one party has too many columns",
            value=len(party.columns),
            limit=_MOST_COLUMNS,
            remedy="Release fewer columns, or use primo-scale release",
        )
    weights.check_column_names("column", [column.name for column in party.columns])
    return party


def _statement(
    request: PartyReleaseRequest, values: PartyValues, charge: Charge, balance: Balance
) -> document.PartyDocument:
    promise, count = request.promise, values.shape[1]
    return document.PartyDocument(
        software=f"primo_scale {__version__}",
        created=datetime.now(UTC).date().isoformat(),
        party=request.party,
        guarantee=publishing.state_guarantee(promise, charge.cost),
        person_columns=request.person_columns or count,
        n_people=len(values.roster),
        alignment=values.roster.tag,
        columns=values.party.columns,
        mixtures=request.stated_mixtures,
        mechanism=document.PartyMechanism(
            unit=BOUNDED_UNIT,
            sensitivity=party_sensitivity(count, request.mixtures),
            sigma=values.sigma,
            fine_bits=fine_bits(values.sigma),
            sampler=words.SAMPLER,
        ),
        ledger=publishing.state_ledger_entry(balance, charge),
        public_by_assumption=words.public_by_assumption(str(promise.unit), str(promise.adjacency)),
    )


# ---- Noise and payment ---------------------------------------------------------------------------


def party_noise(
    epsilon: float, delta: float, *, n_columns: int, n_mixtures: int | None, person_columns: int
) -> tuple[float, Cost]:
    """Return sigma, in lattice units, and cost of `n_columns` columns of one party.

    The promise (epsilon, delta) covers `person_columns` columns together: those of this party
    alone, or the columns of all parties for a promise about a person. `n_mixtures` is None where
    the rows of the people are released. Noise that is too large for the sampler is refused.
    """
    mu = release_mu(epsilon, delta)
    sigma = rounded_up(party_sensitivity(person_columns, n_mixtures) / mu)
    check_sigma(sigma, remedy="Raise --epsilon, or release fewer columns or mixtures")
    return sigma, Cost(mu**2 * n_columns / person_columns)


def party_sensitivity(n_columns: int, n_mixtures: int | None) -> float:
    """Return the l2 sensitivity of `n_columns` columns, in lattice units, to one replaced row.

    Replacing one person changes a row of d coded values by at most ``2 * 2^20 sqrt(d)``, and the k
    sums of a mixture release by at most ``sqrt(k)`` times that, for every matrix of signs
    (docs/maths/parties.md).
    """
    return 2 * BOUNDED_UNIT * math.sqrt(n_columns * (n_mixtures or 1))


@dataclass(frozen=True, eq=False)
class PartyValues:
    """Exact values that a party is about to release. PRIVATE."""

    party: columns.PartyColumns
    roster: columns.Roster
    digest: str  # of the coded values
    mixtures: Int64 | None
    sigma: float  # standard deviation of the noise, in lattice units
    cost: Cost
    public: Mapping[str, Any]  # public parameters that determine the release, as JSON values

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns of the release."""
        rows = self.roster if self.mixtures is None else self.mixtures
        return len(rows), len(self.party.columns)


def pay_for_values(
    values: PartyValues, promise: Promise, payer: Payer, *, published: str | None = None
) -> tuple[Path, Receipt]:
    """Store a key, reserve a charge, draw its noise once, and store the noisy values.

    While the key or the noisy values are stored, the same request returns the same values at no
    further cost. `published` is the charge of the release that exists already, which must be that
    of this request. The result is the file of the noisy values, int64 in the format of NumPy, and
    the receipt. If the budget does not cover the release, a BudgetRefused is raised and no noise
    was drawn.
    """
    noise_store = payer.noise_store
    parameters = {"query": "party release", "sigma": values.sigma, **values.public}
    request = payer.request(values.digest, parameters, promise, values.cost)
    paid = payer.ledger.stored_charge(request, noise_store.charges())
    if published is not None and (paid is None or paid.id != published):
        raise of_other_request("--out", value=f"charge {published}", remedy=NEVER_OVERWRITTEN)
    noise_store.refuse_full_disk(paid, 2 * math.prod(values.shape) * _VALUE.itemsize)
    receipt = pay_once(payer, request)
    charge = receipt.charge
    with noise_store.payment_explained(charge.id):
        path = noise_store.path_of(charge.id, "npy")
        if not path.is_file():
            _draw(values, payer.source(charge), path)
        content = files.sha256_of_file(path).encode()
        record_drawn(payer, charge, "party release", content, stored=path)
    return path, receipt


def _draw(values: PartyValues, source: KeystreamNoise, path: Path) -> None:
    """Write noise alone, each piece under a label of its own, and add the values to it."""
    n_rows, n_columns = values.shape
    header = {"descr": _VALUE.str, "fortran_order": False, "shape": values.shape}
    step = max(1, _DRAWS_AT_A_TIME // n_columns)
    with files.file_published_at_end(path) as file:
        np.lib.format.write_array_header_1_0(file, header)
        offset = file.tell()
        for start in range(0, n_rows, step):
            count = (min(start + step, n_rows) - start) * n_columns
            label = f"party release, rows from {start}"
            noise = lattice_noise(count, values.sigma, source=source, label=label)
            file.write(noise.astype(_VALUE).tobytes())
        file.flush()
        released = np.memmap(file, _VALUE, "r+", offset=offset, shape=values.shape)
        if values.mixtures is not None:
            released += values.mixtures
        else:
            for positions, (_, units) in columns.people_of(values.party, values.roster):
                released[positions] += units
        released.flush()
    announce_step(PaymentStep.STATISTICS_STORED)
