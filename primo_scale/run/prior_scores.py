"""Public scores that a release builds on: reading, matching and the scale of the coding."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from primo_scale.errors import InputError, UsageError
from primo_scale.genotypes.genome_build import NOT_REPORTED, GenomeBuild
from primo_scale.genotypes.tables import VariantTable
from primo_scale.methods.public_scores import PublicScores
from primo_scale.methods.shrinkage import Float64
from primo_scale.publication.statement import StatedScore
from primo_scale.run.design import Design
from primo_scale.run.fields import one_line
from primo_scale.run.request import PriorFile
from primo_scale.run.run_log import LOGGER
from primo_scale.storage.files import sha256_of_file

if TYPE_CHECKING:
    from primo_scale.evaluation.scoring_files import ScoringFile

# Functions import the readers of scores, so that a run without scores does not load them.

_OPTION = "--prior-weights"


@dataclass(frozen=True, eq=False)
class PriorScores:
    """Public scores and their origins, in the same order."""

    scores: PublicScores
    sources: tuple[StatedScore, ...]  # whose slopes are still to be estimated

    @property
    def sha256(self) -> str:
        """Digest of the effects, and of the phenotypes that each score is a prior of."""
        digest = hashlib.sha256(np.ascontiguousarray(self.scores.effects, "<f8").tobytes())
        digest.update(self.scores.used.tobytes())
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class _Column:
    """One score: effects per unit of the coding, and its phenotype, or None for every one."""

    effects: Float64
    phenotype: str | None
    source: StatedScore


def read_prior_scores(
    files: Iterable[PriorFile], variants: VariantTable, design: Design, build: GenomeBuild
) -> PriorScores | None:
    """Read the public scores of a release and log how they match, or return None without files."""
    phenotypes = [p.name for p in design.outcomes.phenotypes]
    columns = [
        column for file in files for column in _read_columns(file, variants, phenotypes, build)
    ]
    if not columns:
        return None
    multiplier = design.genotypes.multiplier.astype(np.float64)
    effects = np.stack([column.effects for column in columns], axis=1) / multiplier[:, None]
    used = np.array(
        [[c.phenotype in (None, name) for name in phenotypes] for c in columns], dtype=np.bool_
    )
    return PriorScores(PublicScores(effects, used), tuple(column.source for column in columns))


def _read_columns(
    file: PriorFile, variants: VariantTable, phenotypes: list[str], build: GenomeBuild
) -> Iterator[_Column]:
    """Yield the scores of one file."""
    from primo_scale.evaluation.scores import match_weights

    if file.phenotype is not None and file.phenotype not in phenotypes:
        raise UsageError(
            "the release has no such phenotype",
            where=_OPTION,
            value=file.phenotype,
            limit=", ".join(phenotypes)[:80],
        )
    read = read_public(file.path, [file.phenotype] if file.phenotype else phenotypes)
    _check_build(read, build)
    matched = match_weights(read, variants, may_be_wider=True)
    LOGGER.info("%s %s: %s", _OPTION, file.path, matched.counts.in_words())
    sha256, counts = sha256_of_file(read.weights_path), matched.counts
    pgs_id = None if read.pgs_id is None else one_line(read.pgs_id)
    file_name = one_line(file.path.resolve().name)
    source = StatedScore(file_name, sha256, pgs_id, counts.total, counts.matched, ())
    for name, weights in zip(read.phenotypes, matched.per_allele1.T, strict=True):
        effects = np.zeros(len(variants))
        effects[matched.variants] = weights
        yield _Column(effects, file.phenotype or name, source)


def read_public(path: Path, wanted: Collection[str] | None) -> ScoringFile:
    """Read a scoring file, and refuse weights without noise, perhaps of this very cohort."""
    from primo_scale.evaluation.scoring_files import read_scoring_file

    file = read_scoring_file(path, wanted)
    if file.not_private:
        raise InputError(
            "is NOT PRIVATE: its weights reveal the people they were learned from",
            where=path,
            remedy="Give a private release or a published score",
        )
    return file


def _check_build(file: ScoringFile, build: GenomeBuild) -> None:
    """Refuse a score whose positions are of another genome build, if it is matched by position."""
    if not file.by_position:
        return
    if file.build in (None, NOT_REPORTED) or build.name == NOT_REPORTED:
        LOGGER.warning(
            "%s %s is matched by position, and the genome build of the file or of the genotypes "
            "is not known: give --genome-build, and check that they are the same",
            _OPTION, file.path,
        )  # fmt: skip
    elif file.build != build.name:
        raise InputError(
            f"positions are in {file.build}, those of the genotypes in {build.name}",
            where=file.path,
            remedy="Give a file with rsID, or one lifted to the genotypes' genome build",
        )
