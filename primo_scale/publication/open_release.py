"""Published releases, read back: weights as tables, the guarantee as attributes, noisy columns."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from primo_scale.errors import InputError, errors_explained
from primo_scale.storage.locations import usable_path
from primo_scale.verify import files, party, release
from primo_scale.verify.document import PARTY, RELEASE, read_document
from primo_scale.verify.finding import refuse_problems
from primo_scale.verify.formats import TERM_COLUMN, WEIGHTS_HEADER

if TYPE_CHECKING:
    import pandas as pd

# Options of `pandas.read_csv` for tables in which neither quotes nor NA have a meaning.
TABLE_OPTIONS: dict[str, Any] = {"sep": "\t", "quoting": csv.QUOTE_NONE, "na_filter": False}


@dataclass(frozen=True)
class Release:
    """Published release.

    Attributes
    ----------
    directory : Path
        Release directory.
    document : Mapping
        Contents of release.json.
    """

    directory: Path
    document: Mapping[str, Any] = field(repr=False, hash=False)

    @cached_property
    def weights(self) -> pd.DataFrame:
        """Weights, one row for each variant.

        Columns ``ID``, ``effect_allele``, ``other_allele``, ``chrom`` and ``pos``, then the weight
        of one effect allele for each phenotype.
        """
        import pandas as pd

        text = dict.fromkeys(WEIGHTS_HEADER, str) | {"pos": int}
        columns = [*WEIGHTS_HEADER, *self.phenotypes]
        path = self.directory / files.WEIGHTS_FILE
        table: pd.DataFrame = pd.read_csv(path, **TABLE_OPTIONS, usecols=columns, dtype=text)
        return table[columns]

    @cached_property
    def covariates(self) -> pd.DataFrame:
        """Weights of the intercept, named ``(intercept)``, and of covariates, for each phenotype.

        The index holds their names.
        """
        import pandas as pd

        path = self.directory / files.COVARIATES_FILE
        table: pd.DataFrame = pd.read_csv(path, **TABLE_OPTIONS, skiprows=1, index_col=TERM_COLUMN)
        return table

    @property
    def phenotypes(self) -> tuple[str, ...]:
        """Names of the phenotypes, in the order of the columns."""
        return tuple(p["name"] for p in self.document["public_inputs"]["phenotypes"])

    @property
    def private(self) -> bool:
        """Whether the release is differentially private."""
        return bool(self.document["private"])

    @property
    def stamp(self) -> str:
        """Guarantee in words, or ``NOT PRIVATE``."""
        return str(self.document["stamp"])

    @property
    def epsilon(self) -> float | None:
        """Privacy parameter epsilon; None for a release that is not private."""
        return float(self.document["guarantee"]["epsilon"]) if self.private else None

    @property
    def delta(self) -> float | None:
        """Privacy parameter delta; None for a release that is not private."""
        return float(self.document["guarantee"]["delta"]) if self.private else None

    @property
    def genome_build(self) -> str:
        """Genome build of the positions, as the PGS Catalog names it."""
        return str(self.document["public_inputs"]["genome_build"])


@errors_explained()
def open_release(directory: str | Path) -> Release:
    """Read a release. It is not verified; `primo_scale.verify` does that.

    Parameters
    ----------
    directory
        Release directory.

    Returns
    -------
    Release
        Guarantee as attributes, and weights as tables that are read when they are used.

    Raises
    ------
    InputError
        The directory holds no release, or its release.json is malformed.
    """
    directory = usable_path(directory, "directory")
    if not (directory / RELEASE.name).is_file():
        raise InputError(
            "holds no release", where=directory, remedy="Give the directory of a release.json"
        )
    document, finding = read_document(directory)
    if document is None:
        raise InputError("is no release.json", where=directory, value=finding.detail)
    return Release(directory, document)


@dataclass(frozen=True, eq=False)
class PartyRelease:
    """Noisy columns that one party released.

    Attributes
    ----------
    directory : Path
        Release directory.
    values : ndarray of int64, shape (rows, columns)
        Noisy values, mapped from the file.
    document : mapping
        Contents of party.json.
    """

    directory: Path
    values: npt.NDArray[np.int64] = field(repr=False)
    document: Mapping[str, Any] = field(repr=False)

    @property
    def scale(self) -> float:
        """Lattice units of half the range of a column, in a row or in a mixture of unit norm."""
        return party.half_range(self.document)

    @property
    def noise_sd(self) -> float:
        """Standard deviation of the noise on every value, in the units of `scale`."""
        return float(self.document["mechanism"]["sigma"]) / self.scale


@errors_explained()
def open_party_release(directory: str | Path, *, public_key: str | None = None) -> PartyRelease:
    """Open a party's release after verifying it.

    Parameters
    ----------
    directory
        Release directory.
    public_key
        Public key of the custodian, in hexadecimal; None accepts a signature by any key.

    Returns
    -------
    PartyRelease
        Noisy columns, mapped from the file.

    Raises
    ------
    InputError
        The directory holds no release of a party, or one that does not pass its verification.
    """
    directory = usable_path(directory, "directory")
    if not (directory / PARTY.name).is_file():
        what = "holds no release of a party"
        raise InputError(what, where=directory, remedy="Give the directory of a party.json")
    findings = release.release_findings(directory, PARTY, public_key=public_key)
    remedy = "Ask the party for an intact copy"
    refuse_problems(findings, "the release is not valid", where=directory, remedy=remedy)
    document, _ = read_document(directory, PARTY)
    values = np.load(directory / files.VALUES_FILE, mmap_mode="r", allow_pickle=False)
    return PartyRelease(directory, values, document or {})
