"""Scoring files of the PGS Catalog (format 2.0), one per phenotype.

Format: https://www.pgscatalog.org/downloads/#dl_ftp_scoring. The files omit the values that the
Catalog assigns to an accepted score (a ``PGS`` accession, mapped traits, the publication). `pgs_id`
is the name of the file, as the PGS Catalog Calculator expects for a custom score.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import numpy as np

from primo_scale.errors import InputError
from primo_scale.genotypes.chromosomes import positioned_chromosome
from primo_scale.genotypes.tables import UNPLACED
from primo_scale.privacy.held_out_accuracy import public_prevalence
from primo_scale.publication.document import Document
from primo_scale.publication.gzip_files import write_gzip
from primo_scale.publication.weights import ScoringWeights, VariantRow, variant_rows, weight_in_text
from primo_scale.publication.wording import stamp_of

PGS_SUFFIX = ".txt.gz"
_WRITERS = 2  # threads: one makes text while the other compresses
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
{scale}
"""  # noqa: E501 (the first line is the format's own)
_BETA = "#weight_type=beta"
_LOG_ODDS = """\
##log odds: weights of the 0/1 trait, divided by K(1 - K) for the public share of cases K = {share}
#weight_type=log(OR)"""
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST_STEM = 200  # of the 255 bytes of a file name; the suffix and temporary names need some


def pgs_file_stems(phenotypes: Sequence[str]) -> tuple[str, ...]:
    """Return a file name without suffix for each phenotype.

    Names consist of letters, digits, ``.``, ``_`` and ``-``. Any other character, and a first ``.``
    or ``-``, becomes ``_``, so that no file is hidden or outside the directory. Two phenotypes that
    would share a file, possibly on a file system that ignores case, are refused.
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


def write_pgs_files(directory: Path, weights: ScoringWeights, document: Document) -> None:
    """Write ``DIRECTORY/<phenotype>.txt.gz`` for every phenotype.

    The column `rsID` contains the variant ID in any notation. A variant of unknown location
    (position 0 or less, or chromosome 0) has an empty `chr_name` and `chr_position`, which the
    format permits for a variant with an ID. The format has no intercept and no covariates. Weights
    of a binary phenotype are log odds ratios (docs/methods.md, "Binary traits").
    """
    from primo_scale.publication.weight_rows import RowBeginnings  # a verifier has no Numba

    directory.mkdir()
    beginnings = RowBeginnings.of(map(pgs_row_prefix, variant_rows(weights.variants)))
    stems = pgs_file_stems(weights.phenotypes)
    shares = case_shares(document)

    def write(number: int) -> None:
        """Write the file of one phenotype."""
        header = pgs_header(weights.phenotypes[number], stems[number], shares[number], document)
        column, share = weights.per_allele[:, [number]], shares[number]
        if share is not None:
            released = [float(weight_in_text(weight)) for weight in column[:, 0].tolist()]
            column = np.array(released)[:, None] / effect_of_odds(share)
        parts = chain([header.encode()], beginnings.with_weights(column))
        write_gzip(directory / f"{stems[number]}{PGS_SUFFIX}", parts)

    with ThreadPoolExecutor(_WRITERS) as pool:
        list(pool.map(write, range(len(stems))))


def effect_of_odds(share: float) -> float:
    """Return the effect of a log odds ratio of one (Pirinen, Donnelly and Spencer 2013)."""
    return share * (1 - share)


def pgs_header(phenotype: str, stem: str, share: float | None, document: Document) -> str:
    """Return the lines before the first variant, including the names of the columns."""
    header = _HEADER.format(
        stamp=stamp_of(document),
        stem=stem,
        trait=phenotype.replace("=", "_"),  # the Catalog's reader splits the line at every "="
        genome_build=document["public_inputs"]["genome_build"],
        variants_number=document["cohort"]["n_variants"],
        scale=_BETA if share is None else _LOG_ODDS.format(share=repr(share)),
    )
    return header + "\t".join(_COLUMNS) + "\n"


def case_shares(document: Document) -> list[float | None]:
    """Return the public share of cases of each phenotype, in the order of the weights."""
    return [public_prevalence(stated) for stated in document["public_inputs"]["phenotypes"]]


def pgs_row_prefix(row: VariantRow) -> str:
    """Return the row of a variant without its weight."""
    name, position = positioned_chromosome(row.chromosome), int(row.position)
    place = f"{name}\t{position}" if position > 0 and name != UNPLACED else "\t"
    return f"{row.identifier}\t{place}\t{row.effect}\t{row.other}\t"
