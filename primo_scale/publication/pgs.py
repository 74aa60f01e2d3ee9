"""One PGS Catalog scoring file (format 2.0) per phenotype.

Format: https://www.pgscatalog.org/downloads/#dl_ftp_scoring. What the Catalog itself assigns when
it accepts a score (a ``PGS`` accession, mapped traits, the publication) is not made up here:
`pgs_id` is the file's own name, as the PGS Catalog Calculator expects of a custom score.
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
_LONGEST_STEM = 200  # file systems end at 255 bytes; the suffix and temporary names need some


@dataclass(frozen=True)
class PgsFacts:
    """What the headers of all scoring files of a release have in common."""

    genome_build: str
    n_variants: int
    stamp: str


def pgs_file_stems(phenotypes: Sequence[str]) -> tuple[str, ...]:
    """A file name without suffix for each phenotype: letters, digits, ``.``, ``_`` and ``-`` only.

    Any other character becomes ``_``, so no name can leave the directory or hide itself.

    Raises
    ------
    InputError
        Two phenotypes would share a file (also where upper and lower case are one), or a name is
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

    The variant ID stands under `rsID` whatever its form. A variant of unknown place
    (position 0 or less, or chromosome 0) has empty `chr_name` and `chr_position`, which the format
    allows where there is an ID; it demands positions above 0 otherwise. Intercept and covariates
    are not part of the format.

    Parameters
    ----------
    directory
        Created.
    weights
        Passed `check_releasable`.
    genome_build
        ``GRCh37``, ``GRCh38``, ``NCBI36``, or ``NR`` (not reported).
    stamp
        One line saying what guarantee the weights carry.
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
    """The lines before the first variant, the names of the columns included."""
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
    """The row of a variant up to its weight."""
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
    """Return the Catalog's name: 1-22, X, Y or MT; the pseudo-autosomal regions lie on X."""
    code = canonical_chromosome(name)
    return CHROMOSOME_X if code in PSEUDO_AUTOSOMAL else code
