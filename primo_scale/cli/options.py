"""Options that several commands share, each declared once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click
from attrs import AttrsInstance, fields, has, resolve_types

from primo_scale.cli.command_line import (
    FILES,
    GENOTYPES,
    MODEL,
    PRIVACY,
    Decorator,
    log_format_option,
    together,
    under,
)
from primo_scale.cli.genotype_options import selection_options, source_options, store_option
from primo_scale.cli.option_types import (
    DIRECTORY,
    AutoNumber,
    CommaSeparated,
    CommaSeparatedPaths,
    LocalPath,
    Number,
    count_option,
    file_option,
    flag,
)
from primo_scale.errors import UsageError
from primo_scale.kernels import AUTOMATIC, NAMES
from primo_scale.methods.estimators import ESTIMATORS, SHRINKAGES

if TYPE_CHECKING:
    from primo_scale.run.request import ReleaseRequest

Part = TypeVar("Part", bound=AttrsInstance)


def neighbour_options(*also: str) -> Decorator:
    """Return the options for the neighbours of a cohort; `also` are further choices."""
    return together(
        click.option(
            "--privacy",
            "unit",
            type=click.Choice(["full", "label", "feature", *also]),
            default="full",
            help="What is protected: a person's whole row; the phenotypes (genotypes and "
            "covariates are public); or genotypes and covariates (phenotypes are public).",
        ),
        click.option(
            "--adjacency",
            type=click.Choice(["replace-one", "add-remove", *also]),
            default="replace-one",
            help="Against which neighbours: a row replaced by any other, or by nothing.",
        ),
    )


def request_from(kind: type[Part], options: Mapping[str, Any]) -> Part:
    """Return a request, or a part of one, from the options that have the names of its fields."""
    given = {name: value for name, value in options.items() if value is not None}
    values = {}
    for field in fields(resolve_types(kind)):
        part = next(filter(has, (field.type, *get_args(field.type))), None)
        if part is not None and field.alias not in given:
            values[field.alias] = request_from(part, given)
        elif field.alias in given:
            values[field.alias] = given[field.alias]
    return kind(**values)


def release_request_from(options: Mapping[str, Any]) -> ReleaseRequest:
    """Return the request of a release of genotype files, or of the store of ``--genotypes``."""
    from primo_scale.run.genotype_files import GenotypeFiles
    from primo_scale.run.request import ReleaseRequest

    request = request_from(ReleaseRequest, options)
    of_files = {field.name for field in fields(GenotypeFiles)} - {"ref_freq"}
    if options["genotypes"] is not None and any(options[name] for name in of_files):
        raise UsageError(
            "a store holds the people and variants that its ingest chose",
            where="--genotypes",
            value=options["genotypes"],
            remedy="Leave out --genotypes, or the options of genotype files and their filters",
        )
    return request


column_options = (
    click.option(
        "--pheno-name",
        type=CommaSeparated(),
        help="Only these phenotypes, such as BMI,lipid_* (default: every column).",
    ),
    click.option(
        "--covar-name",
        type=CommaSeparated(),
        help="Only these covariates, such as age,PC? (default: every column).",
    ),
)

outcome_options = under(
    "Phenotypes and covariates",
    file_option(
        "--pheno",
        required=True,
        help="Phenotypes: FID IID NAME... or #IID NAME..., with blanks, tabs or commas; NA and "
        "-9 are missing.",
    ),
    file_option("--covar", help="Covariates, in the same layout."),
    *column_options,
    file_option(
        "--pheno-bounds",
        help="Public bounds: a table of name, lower, upper and optionally mean, sd, type.",
    ),
    file_option(
        "--covar-bounds", help="Public bounds of the covariates: a table of name, lower, upper."
    ),
    file_option(
        "--pc-loadings",
        metavar="PREFIX.eigenvec.allele",
        help="Loadings of a public panel (plink2 --pca allele-wts --freq counts): the principal "
        "components of each person are covariates, at no cost in privacy.",
    ),
)

ref_freq_option = under(
    MODEL,
    file_option(
        "--ref-freq", help="Public allele frequencies (plink2 --freq of a reference panel)."
    ),
)


def ld_panel_option(use: str, *, required: bool = False) -> Decorator:
    """Return ``--ld-panel``, and state the use of the panel in its help."""
    return click.option(
        "--ld-panel",
        type=CommaSeparatedPaths(),
        required=required,
        metavar="PREFIX[,PREFIX...]",
        help=f"PLINK 1 filesets of public people, as for --bfile, {use}",
    )


ld_components_option = click.option(
    "--ld-components/--no-ld-components",
    default=True,
    help="Sum LD components of the panel in place of variants.",
)

_model_options = under(
    MODEL,
    ref_freq_option,
    click.option(
        "--ld-blocks",
        metavar="window:N|FILE",
        help="LD blocks of at most N variants, or a table of chrom start end "
        "(default: those of --ld-panel, or one dense block).",
    ),
    ld_panel_option(
        "whose linkage disequilibrium reduces the noise (docs/maths/ld-components.md)."
    ),
    file_option(
        "--panel-populations",
        help="IID and population of the people of --ld-panel: how much of a score lies between "
        "populations and, with --pc-loadings and --hold-out, its accuracy within them.",
    ),
    ld_components_option,
    count_option(
        "--genetic-factors",
        metavar="K",
        help="Public guess of the number of genetic factors that the phenotypes share, for which "
        "LD components are chosen (docs/maths/genetic-factors.md).",
    ),
    click.option(
        "--rounds",
        type=click.IntRange(1, 2),
        help="Measurements of X'Y; the second has directions chosen by the first (default: 2 over "
        "LD components of up to 100 phenotypes without --genetic-factors, else 1; "
        "docs/maths/rounds.md).",
    ),
    click.option(
        "--row-norm",
        type=Number(min=0, min_open=True, max=1e9),
        help="Public bound on the norm of a coded genotype row, in units of the coding "
        "(default: from the public frequencies, docs/maths/clipping-and-integers.md).",
    ),
)

_privacy_options = under(
    PRIVACY,
    neighbour_options(),
    count_option(
        "--nominal-n",
        metavar="N",
        help="Public round size to plan for, where add-remove makes the real one private.",
    ),
    count_option(
        "--subsample",
        metavar="N",
        help="Sum X'X over a secret random N people (method sub-samp-reuse-cov).",
    ),
    click.option(
        "--hold-out",
        type=Number(min=0, max=0.5, min_open=True),
        metavar="SHARE",
        help="Leave this share of the people, chosen at random, out of all sums, and measure the "
        "weights with them, under the same epsilon and delta: R^2 with an interval, and slope.",
    ),
    flag(
        "--non-private",
        help="No noise, and rows are not scaled down; values are still cut to their bounds. "
        "Every file is stamped NOT PRIVATE. For validation.",
    ),
)

model_options = together(_model_options, _privacy_options)

budget_options = under(
    PRIVACY,
    click.option("--epsilon", type=float, help="Privacy parameter epsilon of this release."),
    click.option("--delta", type=float, help="Privacy parameter delta; about 1/n^2 is usual."),
    flag("--accept-noise", help="Spend the budget even if the weights are expected to be noise."),
)

ledger_options = under(
    PRIVACY,
    file_option("--ledger", help="Ledger (default: one per user)."),
    click.option(
        "--cohort", metavar="NAME", help="The cohort's name in the ledger. Every release states it."
    ),
)

_method_options = under(
    MODEL,
    click.option(
        "--ridge",
        type=AutoNumber(),
        default="auto",
        metavar="auto|VALUE",
        help="Penalty, as scikit-learn's Ridge(alpha) on genotypes of about unit variance: their "
        "codes divided by 16 with --ref-freq, and copies minus 1 without it.",
    ),
    click.option(
        "--method",
        default="auto",
        metavar="auto|NAME",
        help="Method of noise and weights; docs/methods.md has the table.",
    ),
    click.option(
        "--gamma",
        type=Number(min=0, max=1, min_open=True, max_open=True),
        help="Share of mu^2 for the smallest eigenvalue in the method ada-ssp-budget "
        "(default: 0.05).",
    ),
    click.option(
        "--prior-weights",
        multiple=True,
        metavar="[PHENOTYPE=]FILE",
        help="Public score to build on, of every phenotype or of one: a PGS Catalog file, a "
        "release, or its weights.tsv.gz; may be repeated. A useless one costs next to nothing.",
    ),
    click.option(
        "--shrinkage",
        type=click.Choice(SHRINKAGES),
        metavar=f"[{'|'.join(name for name in SHRINKAGES if not ESTIMATORS[name].is_deprecated)}]",
        help="Shrinkage of noisy weights, where the method allows a choice (default: "
        "effect-variances, or point-normal with LD components).",
    ),
)

_output_options = under(
    FILES,
    flag(
        "--purge-intermediates",
        help="Delete the private intermediate files after publication. The release and the "
        "ledger stay.",
    ),
    flag(
        "--sumstats",
        help="Publish summary statistics too (GWAS-SSF): effect, standard error and p-value of "
        "each variant alone, at no further cost. Needs --ref-freq and, with --ld-panel, "
        "--no-ld-components where the statistics are made.",
    ),
    flag(
        "--calibrate",
        help="Multiply the weights of each phenotype by the slope that --hold-out measures, if "
        "its interval is above 0, and excludes 1 or has ends within a factor of 2.",
    ),
    click.option(
        "--genome-build",
        metavar="GRCh37|GRCh38|NCBI36",
        help="Genome build of the positions, for the PGS files; hg19 and hg38 mean the same "
        "(default: inferred from known variants; NR: not reported).",
    ),
)

release_options = together(_method_options, _output_options)

execution_options = under(
    "Where and how to compute",
    click.option("--scheduler", metavar="ADDRESS", help="A running Dask scheduler."),
    click.option(
        "--tls",
        type=DIRECTORY,
        help="Certificates that the scheduler was started with (primo-scale certificates).",
    ),
    flag(
        "--no-tls", help="Talk to the scheduler in plain text: everybody on the network is trusted."
    ),
    file_option(
        "--cluster",
        metavar="FILE.toml",
        help="Profile of a cluster: SLURM, PBS, LSF, SGE, Kubernetes and others; cluster/ has "
        "examples.",
    ),
    count_option(
        "--workers",
        help="Worker processes on this machine (default: threads of the command itself).",
    ),
    click.option(
        "--memory-limit",
        metavar="SIZE",
        help="Memory limit of each local worker, such as 4GiB (default: the share of one CPU).",
    ),
    click.option(
        "--object-store",
        metavar="URL",
        help="Keep the stores of the workers and the sums at s3://bucket/prefix, for workers that "
        "cannot read this machine's files.",
    ),
    click.option(
        "--kernel",
        type=click.Choice(NAMES),
        default=AUTOMATIC,
        help="Code that multiplies genotypes; every kernel gives the same integers.",
    ),
    click.option(
        "--performance-report",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE.html",
        help="Write Dask's report of the accumulation, in the work directory unless FILE is "
        "absolute. PRIVATE.",
    ),
)


dry_run_option = under(
    "Where and how to compute",
    flag(
        "--dry-run",
        help="Check options, headers, tables and the ledger, print what the run needs, and do "
        "nothing.",
    ),
)

encryption_option = under(
    FILES,
    file_option(
        "--encryption-key",
        help="Encrypt data about people with the key in this file (primo-scale encryption-key).",
    ),
)


def work_dir_option(*, required: bool) -> Decorator:
    """Return ``--work-dir``, which is optional for a command with ``--out``."""
    return under(
        FILES,
        click.option(
            "--work-dir",
            type=LocalPath(file_okay=False, path_type=Path),
            required=required,
            help="Private directory for intermediate files" + ("." if required else " (OUT.work)."),
        ),
    )


def out_option(help_text: str) -> Decorator:
    """Return ``--out``, the path that a command creates."""
    path = LocalPath(path_type=Path)
    return under(FILES, click.option("--out", type=path, required=True, help=help_text))


whole_release_options = together(
    source_options,
    under(GENOTYPES, store_option(in_place_of_files=True)),
    outcome_options,
    budget_options,
    out_option("The release directory to publish."),
    selection_options,
    model_options,
    release_options,
    ledger_options,
    work_dir_option(required=False),
    execution_options,
    encryption_option,
    log_format_option,
)
"""Options of a release from genotype files."""
