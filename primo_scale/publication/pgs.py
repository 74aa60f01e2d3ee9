"""Scoring files of the PGS Catalog (format 2.0), one per phenotype.

Format: https://www.pgscatalog.org/downloads/#dl_ftp_scoring. The files omit the values that the
Catalog assigns to an accepted score (a ``PGS`` accession, mapped traits, the publication). `pgs_id`
is the name of the file, as the PGS Catalog Calculator expects for a custom score.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from primo_scale.errors import InputError
from primo_scale.genotypes.chromosomes import CHROMOSOME_X, PSEUDO_AUTOSOMAL
from primo_scale.genotypes.tables import UNPLACED, VariantTable, canonical_chromosome
from primo_scale.publication.weights import ScoringWeights, write_gzip

PGS_SUFFIX = ".txt.gz"
_COLUMNS = ("rsID", "chr_name", "chr_position", "effect_allele", "other_allele", "effect_weight")
_HEADER = """\
###PGS CATALOG SCORING FILE - see https://www.pgscatalog.org/downloads/#dl_ftp_scoring for additional information
#format_version=2.0
##POLYGENIC SCORE (PGS) INFORMATION
##{stamp}
#pgs_id={stem}
#pgs_name={stem}
#trait_reported={trait}
#genome_build={genome_build}
#variants_number={variants_number}
#weight_type=beta
"""  # noqa: E501 (the first line is the format's own)
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST_STEM = 200  # of the 255 bytes of a file name; the suffix and temporary names need some


@dataclass(frozen=True)
class PgsFacts:
    """Common values in the headers of all scoring files of a release."""

    genome_build: str
    n_variants: int
    stamp: str


def pgs_file_stems(phenotypes: Sequence[str]) -> tuple[str, ...]:
    """Return a file name without suffix for each phenotype.

    Names consist of letters, digits, ``.``, ``_`` and ``-``. Any other character, and a first ``.``
    or ``-``, becomes ``_``, so that no file is hidden or outside the directory.

    Raises
    ------
    InputError
        Two phenotypes would share a file, possibly on a file system that ignores case, or a name is
        too long for a file name.
    """
    owner: dict[str, str] = {}
    stems = []
    for name in phenotypes:
        stem = _UNSAFE.sub("_", name)
        if stem[0] in ".-":
            stem = f"_{stem[1:]}"
        if len(stem) > _LONGEST_STEM:
            raise InputError(
                "a phenotype name is too long for a file name",
                where="release",
                value=f"{name[:40]}...",
                limit=f"{_LONGEST_STEM} characters",
                remedy="Rename the column",
            )
        other = owner.setdefault(stem.lower(), name)
        if other != name:
            raise InputError(
                f"the phenotypes {other!r} and {name!r} would share the file {stem}{PGS_SUFFIX}",
                where="release",
                remedy="Rename one of the columns",
            )
        stems.append(stem)
    return tuple(stems)


def write_pgs_files(
    directory: Path, weights: ScoringWeights, *, genome_build: str, stamp: str
) -> None:
    """Write ``DIRECTORY/<phenotype>.txt.gz`` for every phenotype.

    The column `rsID` contains the variant ID in any notation. A variant of unknown location
    (position 0 or less, or chromosome 0) has an empty `chr_name` and `chr_position`, which the
    format permits for a variant with an ID. The format has no intercept and no covariates.

    Parameters
    ----------
    directory : Path
        Directory to create.
    weights : ScoringWeights
        Weights that `check_releasable` accepts.
    genome_build : str
        ``GRCh37``, ``GRCh38``, ``NCBI36``, or ``NR`` (not reported).
    stamp : str
        Line with the guarantee of the weights.
    """
    directory.mkdir()
    prefixes = list(_row_prefixes(weights.variants))
    stated = PgsFacts(genome_build, len(prefixes), stamp)
    for index, (name, stem) in enumerate(
        zip(weights.phenotypes, pgs_file_stems(weights.phenotypes), strict=True)
    ):
        values = weights.per_allele[:, index].tolist()
        rows = [f"{prefix}{value:.9g}\n" for prefix, value in zip(prefixes, values, strict=True)]
        header = pgs_header(name, stem, stated)
        write_gzip(directory / f"{stem}{PGS_SUFFIX}", (header, "".join(rows)))


def pgs_header(phenotype: str, stem: str, stated: PgsFacts) -> str:
    """Return the lines before the first variant, including the names of the columns."""
    header = _HEADER.format(
        stamp=stated.stamp,
        stem=stem,
        trait=phenotype.replace("=", "_"),  # the Catalog's reader splits the line at every "="
        genome_build=stated.genome_build,
        variants_number=stated.n_variants,
    )
    return header + "\t".join(_COLUMNS) + "\n"


def pgs_row_prefix(
    identifier: str, *, chromosome: str, position: int, effect: str, other: str
) -> str:
    """Return the row of a variant without its weight."""
    name = _catalog_chromosome(chromosome)
    place = f"{name}\t{position}" if position > 0 and name != UNPLACED else "\t"
    return f"{identifier}\t{place}\t{effect}\t{other}\t"


def _row_prefixes(variants: VariantTable) -> Iterator[str]:
    for identifier, chromosome, position, effect, other in zip(
        variants.identifier,
        variants.chromosome,
        variants.position.tolist(),
        variants.allele1,
        variants.allele2,
        strict=True,
    ):
        yield pgs_row_prefix(
            identifier, chromosome=chromosome, position=position, effect=effect, other=other
        )


def _catalog_chromosome(name: str) -> str:
    """Return the Catalog's name: 1-22, X, Y or MT; pseudo-autosomal regions belong to X."""
    code = canonical_chromosome(name)
    return CHROMOSOME_X if code in PSEUDO_AUTOSOMAL else code
