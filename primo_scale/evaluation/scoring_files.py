"""Reading of score weights: a verified release, weights.tsv.gz, or a file of the PGS Catalog."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from primo_scale.errors import InputError
from primo_scale.evaluation.accuracy import Floats
from primo_scale.publication.file_names import CENTRE_FILE, WEIGHTS_FILE
from primo_scale.publication.open_release import Release, open_release
from primo_scale.publication.verify import verify
from primo_scale.publication.weights import NAMED_COLUMNS

_ALLELES = ["effect_allele", "other_allele"]
_REMEDY = "Give a release directory, its weights.tsv.gz, or a PGS Catalog file of format 2.0"


@dataclass(frozen=True, eq=False)
class ScoringFile:
    """Weights of the scores of one release or file."""

    path: Path
    variants: pd.DataFrame  # columns ID, effect_allele, other_allele; ID None: key is CHR:POS
    by_position: bool  # whether the column ID contains CHROMOSOME:POSITION
    # Phenotypes that the scores predict, l names; None stands for a score of no known phenotype.
    phenotypes: tuple[str | None, ...]
    per_allele: Floats  # weight of one copy of the effect allele, shape (variants, l)
    release: Release | None = None
    # Codes of controls and cases of the binary phenotypes of a release.
    codes: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def centres(self) -> Path | None:
        """Table of the dosages that replace missing genotypes, or None."""
        return None if self.release is None else self.release.directory / CENTRE_FILE


def read_scoring_file(path: Path, wanted: Collection[str]) -> ScoringFile:
    """Read the weights of the `wanted` phenotypes.

    A directory is a release, which is verified. A PGS Catalog file has one score. It belongs to the
    wanted phenotype that its header reports as the trait, or to none.

    Raises
    ------
    InputError
        The release fails its verification, the file has another format, or it has no score of a
        wanted phenotype.
    """
    if path.is_dir():
        return _read_release(path, wanted)
    names = _header(path)
    if "effect_weight" in names:
        return _read_catalog(path, names, wanted)
    if "ID" not in names:
        raise InputError("is no scoring file", where=path, value=" ".join(names)[:80],
                         remedy=_REMEDY)  # fmt: skip
    return _read_weights(path, names[NAMED_COLUMNS:], wanted)


def _read_release(directory: Path, wanted: Collection[str]) -> ScoringFile:
    release, verdict = open_release(directory), verify(directory)
    if not verdict.ok:
        problem = verdict.problems[0]
        raise InputError(
            f"the release fails its verification: {problem.check}: {problem.detail}",
            where=directory,
            remedy="Ask its publisher for an intact copy",
        )
    file = _read_weights(directory / WEIGHTS_FILE, release.phenotypes, wanted)
    bounds = release.document["public_inputs"]["phenotypes"]
    codes = {p["name"]: (p["lower"], p["upper"]) for p in bounds if p["kind"] == "binary"}
    return ScoringFile(
        directory, file.variants, False, file.phenotypes, file.per_allele, release, codes
    )


def _read_weights(path: Path, names: Collection[str], wanted: Collection[str]) -> ScoringFile:
    chosen = [name for name in names if name in wanted]
    if not chosen:
        raise InputError(
            "has no score of a phenotype of --pheno",
            where=path,
            value=", ".join(names)[:80],
            expected=", ".join(wanted)[:80],
            remedy="Name the columns of --pheno as the phenotypes of the scores",
        )
    table = _read_table(path, ["ID", *_ALLELES, *chosen])
    return ScoringFile(
        path, table[["ID", *_ALLELES]], False, tuple(chosen), _numbers(table[chosen], path)
    )


def _read_catalog(path: Path, names: Collection[str], wanted: Collection[str]) -> ScoringFile:
    by_position = "rsID" not in names
    place = ["chr_name", "chr_position"] if by_position else ["rsID"]
    table = _read_table(path, [*place, *_ALLELES, "effect_weight"])
    table["ID"] = table[place].agg(":".join, axis=1) if by_position else table["rsID"]
    trait = {name.replace("=", "_"): name for name in wanted}.get(_reported_trait(path))
    weight = _numbers(table[["effect_weight"]], path)
    return ScoringFile(path, table[["ID", *_ALLELES]], by_position, (trait,), weight)


def _header(path: Path) -> list[str]:
    return [str(name) for name in _read_table(path, None).columns]


def _read_table(path: Path, columns: list[str] | None) -> pd.DataFrame:
    """Read columns as text, or with None only the header."""
    try:
        return pd.read_csv(
            path, sep="\t", comment="#", usecols=columns, dtype=str, na_filter=False,
            nrows=0 if columns is None else None,
        )  # fmt: skip
    except (ValueError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"is no scoring file: {error}", where=path, remedy=_REMEDY) from error


def _numbers(table: pd.DataFrame, path: Path) -> Floats:
    try:
        values = table.to_numpy(np.float64)
    except ValueError as error:
        raise InputError(f"has a weight that is no number: {error}", where=path) from error
    if not np.isfinite(values).all():
        raise InputError("has a weight that is not finite", where=path)
    return values


def _reported_trait(path: Path) -> str:
    """Return the member `trait_reported` of the header of a PGS Catalog file."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        for line in file:
            if not line.startswith("#"):
                break
            if line.startswith("#trait_reported="):
                return line.partition("=")[2].strip()
    return ""
