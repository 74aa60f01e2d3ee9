"""A published release, read back: weights as tables, the guarantee as attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from primo_scale.errors import InputError
from primo_scale.publication.file_names import COVARIATES_FILE, RELEASE_FILE, WEIGHTS_FILE
from primo_scale.publication.signed_document import read_document
from primo_scale.publication.weights import WEIGHTS_HEADER

if TYPE_CHECKING:
    import pandas as pd


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
    document: Mapping[str, Any] = field(repr=False)

    @cached_property
    def weights(self) -> pd.DataFrame:
        """Weights, one row for each variant.

        Columns ``ID``, ``effect_allele``, ``other_allele``, ``chrom`` and ``pos``, then the weight
        of one effect allele for each phenotype.
        """
        import pandas as pd

        text = dict.fromkeys(WEIGHTS_HEADER, str) | {"pos": int}
        columns = [*WEIGHTS_HEADER, *self.phenotypes]
        path = self.directory / WEIGHTS_FILE
        table = pd.read_csv(path, sep="\t", usecols=columns, dtype=text, na_filter=False)
        return table[columns]

    @cached_property
    def covariates(self) -> pd.DataFrame:
        """Weights of the intercept, named ``(intercept)``, and of covariates, for each phenotype.

        The index holds their names.
        """
        import pandas as pd

        path = self.directory / COVARIATES_FILE
        return pd.read_csv(path, sep="\t", skiprows=1, index_col="term", na_filter=False)

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
        return self._guarantee("epsilon")

    @property
    def delta(self) -> float | None:
        """Privacy parameter delta; None for a release that is not private."""
        return self._guarantee("delta")

    @property
    def genome_build(self) -> str:
        """Genome build of the positions, as the PGS Catalog names it."""
        return str(self.document["public_inputs"]["genome_build"])

    def _guarantee(self, name: str) -> float | None:
        guarantee = self.document["guarantee"]
        return None if guarantee is None else float(guarantee[name])


def open_release(directory: str | Path) -> Release:
    """Read a release. It is not verified; `primo_scale.verify` does that.

    Parameters
    ----------
    directory
        Release directory.

    Raises
    ------
    InputError
        The directory holds no release, or its release.json is malformed.
    """
    directory = Path(directory)
    if not (directory / RELEASE_FILE).is_file():
        raise InputError("holds no release", where=directory)
    document, finding = read_document(directory)
    if document is None:
        raise InputError("is no release.json", where=directory, value=finding.detail)
    return Release(directory, document)
