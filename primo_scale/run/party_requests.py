"""Requests of a release by one of several parties, and of a model from their releases."""

from __future__ import annotations

import re
from pathlib import Path

from attrs import field, frozen
from attrs.converters import optional

from primo_scale.errors import UsageError
from primo_scale.gaussian.calibration import release_mu
from primo_scale.parties.fit import PartyMethod
from primo_scale.parties.mixtures import SEED_DIGITS, RandomSigns
from primo_scale.privacy.mechanism import Promise
from primo_scale.run.request_parts import (
    OutcomeTables,
    beside_release,
    check_number,
    one_line,
    paths_of,
    regular_file,
    release_directory,
)
from primo_scale.run.typed_fields import typed
from primo_scale.storage.locations import Location, parse_location


def _seed(value: str) -> str:
    if not re.fullmatch(f"[0-9a-f]{{{SEED_DIGITS}}}", value.lower()):
        raise UsageError(
            "is no seed",
            where="--seed",
            value=value,
            limit=f"{SEED_DIGITS} hexadecimal digits",
            remedy="Take the SHA-256 of a text that all parties agree on, and its first digits",
        )
    return value.lower()


@frozen(kw_only=True, field_transformer=typed)
class PartyReleaseRequest:
    """Release of the columns that one party holds of the people of all parties.

    Attributes
    ----------
    party : str
        Public name of the party.
    roster : Path
        Roster that all parties agreed on.
    party_key : Path
        File of the key that the parties share.
    out : Path
        Release directory to publish.
    epsilon, delta : float
        Promise for this release, or for `person_columns` columns.
    pheno, pheno_bounds : Path or None
        Table of the columns, and their public bounds.
    pheno_name : tuple of str or None
        Columns of the table to release; None stands for all of them.
    genotypes : Location or None
        Genotype store whose variants are the columns, in place of a table.
    mixtures : int or None
        Number of random mixtures to release; None stands for the rows of the people.
    seed : str or None
        Public seed of the mixtures, which all parties use, 32 hexadecimal digits.
    person_columns : int or None
        Number of columns of all parties, if the promise is about a person and all parties.
    work_dir : Path
        Private directory; ``OUT.work`` unless given.
    ledger : Path or None
        Ledger file; None stands for the user's own.
    cohort : str or None
        Name of the cohort in the ledger.

    Raises
    ------
    UsageError
        Choices that exclude each other, or that lack a part.
    """

    party: str
    roster: Path = field(converter=regular_file)
    party_key: Path = field(converter=regular_file)
    out: Path = field(converter=release_directory)
    epsilon: float = field(converter=float)
    delta: float = field(converter=float)
    pheno: Path | None = field(default=None, converter=optional(regular_file))
    pheno_bounds: Path | None = field(default=None, converter=optional(regular_file))
    pheno_name: tuple[str, ...] | None = field(default=None, converter=optional(tuple[str, ...]))
    genotypes: Location | None = field(default=None, converter=optional(parse_location))
    mixtures: int | None = None
    seed: str | None = field(default=None, converter=optional(_seed))
    person_columns: int | None = None
    _work_dir: Path | None = field(default=None, converter=optional(Path))
    ledger: Path | None = field(default=None, converter=optional(regular_file))
    cohort: str | None = field(default=None, converter=optional(one_line))

    def __attrs_post_init__(self) -> None:
        if not self.party.strip() or not self.party.isprintable():
            raise UsageError(
                "is no name of a party",
                where="--party",
                value=repr(self.party),
                remedy="Give printable text on one line",
            )
        check_number("--mixtures", self.mixtures, least=1)
        check_number("--person-columns", self.person_columns, least=1)
        release_mu(self.epsilon, self.delta)
        if (self.tables is None) == (self.genotypes is None):
            what = "a release has the columns of --pheno or of --genotypes"
            raise UsageError(what, remedy="Give one of them")
        if (self.mixtures is None) != (self.seed is None):
            raise UsageError("--mixtures and --seed go together", remedy="Give both")

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
    def signs(self) -> RandomSigns | None:
        """Signs of the mixtures, or None where rows are released."""
        if self.mixtures is None or self.seed is None:
            return None
        return RandomSigns(self.seed, self.mixtures)


@frozen(kw_only=True, field_transformer=typed)
class PartyFitRequest:
    """Linear model from the releases of several parties. It costs no privacy.

    Attributes
    ----------
    releases : tuple of Path
        Release directories of the parties.
    outcome : str
        Column to predict: its name, or ``PARTY:NAME`` where parties share the name.
    out : Path
        Directory to create.
    predictors : tuple of str or None
        Columns to predict with; None stands for all others.
    method : PartyMethod
        ``bgm``, ``dgm``, ``rmgm`` or ``rmgm-debiased``.
    ridge : float or None
        Penalty in the units of a sum over people; None stands for the floor of the eigenvalues.
    """

    releases: tuple[Path, ...] = field(converter=paths_of)
    outcome: str
    out: Path = field(converter=Path)
    predictors: tuple[str, ...] | None = field(default=None, converter=optional(tuple[str, ...]))
    method: PartyMethod = field(converter=PartyMethod)
    ridge: float | None = field(default=None, converter=optional(float))

    def __attrs_post_init__(self) -> None:
        if not self.releases:
            raise UsageError("no releases are given", where="--release")
        check_number("--ridge", self.ridge, least=0)
