"""Options of genotype files, and of the people and variants of them that take part."""

from __future__ import annotations

import click

from primo_scale.cli.command_line import GENOTYPES, Decorator, under
from primo_scale.cli.option_types import (
    CommaSeparatedPaths,
    Number,
    count_option,
    file_option,
    flag,
)
from primo_scale.errors import UsageError


def store_option(*, in_place_of_files: bool = False) -> Decorator:
    """Return ``--genotypes``, which is required unless files may be given."""
    return click.option(
        "--genotypes",
        required=not in_place_of_files,
        metavar="PATH|URL",
        help="Store written by ingest"
        + (", in place of files." if in_place_of_files else ": a path or a URL."),
    )


_FORMATS = {
    "bfile": "PLINK 1: PREFIX.bed, .bim and .fam. Several are joined, also as 'chr{1..22}', chr@ "
    "(1 to 22) or FILE.list (one a line).",
    "pfile": "PLINK 2: PREFIX.pgen, .pvar or .pvar.zst, and .psam.",
    "bgen": "BGEN 1.2 or 1.3; hard calls as plink2 --hard-call-threshold 0.1, or --dosages.",
    "vcf": "VCF or BCF, compressed by bgzip and indexed.",
    "vcz": "VCF-Zarr, as bio2zarr writes it.",
}
SOURCE_OPTIONS = (
    *(
        click.option(f"--{name}", type=CommaSeparatedPaths(), metavar="PATH[,PATH...]", help=text)
        for name, text in _FORMATS.items()
    ),
    file_option("--sample", help="The .sample file of the BGEN files."),
    click.option(
        "--bgen-order",
        type=click.Choice(["ref-first", "ref-last", "ref-unknown"]),
        help="Order of the alleles in BGEN files, as plink2 --bgen (default: ref-first); the other "
        "one is counted.",
    ),
    flag(
        "--dosages",
        help="Read dosages in place of hard calls (PGEN, BGEN, DS or GP of VCF), in steps of "
        "1/127 of a copy.",
    ),
)
"""Options of genotype files, one for each format; docs/inputs.md lists what is read."""

source_options = under(GENOTYPES, *SOURCE_OPTIONS)


def _refuse_private_filter(_: click.Context, option: click.Parameter, value: str | None) -> None:
    if value is not None:
        raise UsageError(
            "filters by the genotypes of the cohort, which the variants of a release would reveal "
            "without noise",
            where=option.opts[0],
            remedy="Choose variants by public knowledge: --ref-freq with --ref-maf, or --extract",
        )


_private_filters = [
    click.option(
        f"--{name}", hidden=True, expose_value=False, is_flag=False, flag_value="",
        callback=_refuse_private_filter,
    )
    for name in ("maf", "max-maf", "mac", "max-mac", "geno", "hwe", "mind", "indep-pairwise")
]  # fmt: skip

selection_options = under(
    GENOTYPES,
    *_private_filters,
    file_option("--keep", help="Only these people (FID IID, or IID)."),
    file_option("--remove", help="All but these people."),
    file_option("--extract", help="Only these variant IDs."),
    file_option("--exclude", help="All but these variant IDs."),
    file_option(
        "--extract-by-prior",
        metavar="FILE",
        help="Only the variants that matter most in this public scoring file; see --top.",
    ),
    count_option(
        "--top",
        metavar="K",
        help="Number of variants that --extract-by-prior leaves, those with the largest weight^2 "
        "2p(1-p) by the public frequencies p of --ref-freq.",
    ),
    click.option(
        "--chr",
        "chromosomes",
        metavar="LIST",
        help="Only these chromosomes, such as 1-4,22,X,PAR1 (default: 1-22, X, XY, PAR1, PAR2; "
        "Y and MT cannot take part).",
    ),
    click.option(
        "--ref-maf",
        type=Number(min=0, max=0.5),
        help="Only variants whose minor allele is at least as frequent in the panel of --ref-freq.",
    ),
)
