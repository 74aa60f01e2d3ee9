"""Reading of a party's release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from primo_scale.errors import InputError
from primo_scale.publication.document import PARTY
from primo_scale.publication.file_names import PARTY_FILE, VALUES_FILE
from primo_scale.publication.finding import refuse_problems
from primo_scale.publication.signed_document import read_document
from primo_scale.publication.verify_party import verify_party


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
    values: npt.NDArray[np.int64]
    document: Mapping[str, Any]

    @property
    def scale(self) -> float:
        """Lattice units of half the range of a column, in a row or in a mixture of unit norm."""
        mixtures = self.document["mixtures"]
        return float(
            self.document["mechanism"]["unit"] * (mixtures["count"] if mixtures else 1) ** 0.5
        )

    @property
    def noise_sd(self) -> float:
        """Standard deviation of the noise on every value, in the units of `scale`."""
        return float(self.document["mechanism"]["sigma"]) / self.scale


def open_party_release(directory: str | Path, *, public_key: str | None = None) -> PartyRelease:
    """Open a party's release after verifying it.

    Parameters
    ----------
    directory
        Release directory.
    public_key
        Public key of the custodian, in hexadecimal; None accepts a signature by any key.

    Raises
    ------
    InputError
        The directory holds no release of a party, or one that does not pass its verification.
    """
    directory = Path(directory)
    if not (directory / PARTY_FILE).is_file():
        raise InputError(
            "holds no release of a party",
            where=directory,
            remedy="Give the directory of a party.json",
        )
    findings = verify_party(directory, public_key=public_key)
    remedy = "Ask the party for an intact copy"
    refuse_problems(findings, "the release is not valid", where=directory, remedy=remedy)
    document, _ = read_document(directory, PARTY)
    values = np.load(directory / VALUES_FILE, mmap_mode="r", allow_pickle=False)
    return PartyRelease(directory, values, document or {})
