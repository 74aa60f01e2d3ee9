"""Options that several commands share, each declared once."""

from __future__ import annotations

import importlib.util
import math
import re
from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import click

from pipelines.command_line import DIRECTORY, FILE_PATH

Command = Callable[..., Any]
Decorator = Callable[[Command], Command]


def _together(options: Sequence[Decorator]) -> Decorator:
    """One decorator that adds all `options`, listed in --help in the order given."""
    return lambda command: reduce(lambda inner, add: add(inner), reversed(options), command)


class MemorySize(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2
    """``4GiB``, ``500MB`` and the like, spelled as in a profile."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the spelling: a number alone could be bytes, or a share of the machine."""
        from primo_scale.cluster.profile import is_size

        if not is_size(value):
            self.fail(f"{value!r} is not a size such as 4GiB", param, ctx)
        return str(value)


class Number(click.FloatRange):
    """A number in a range; ``nan``, which compares with nothing and so is in every range, is none.

    Nor is infinity, which is in a range that is open above.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


class PlaceType(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2
    """A path, or an URL of an object store such as ``s3://bucket/prefix``."""

    name = "place"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The place, `primo_scale.storage.places.Place`."""
        from primo_scale.errors import UsageError
        from primo_scale.storage.places import place

        try:
            return place(value) if isinstance(value, str) else value
        except UsageError as error:
            self.fail(str(error), param, ctx)


class BucketType(PlaceType):
    """An URL of an object store."""

    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The URL, `primo_scale.storage.places.ObjectUrl`."""
        found = super().convert(value, param, ctx)
        if isinstance(found, Path):
            self.fail(f"{value!r} is no URL such as s3://bucket/prefix", param, ctx)
        return found


class LocalPathType(click.Path):
    """A path of this machine: an URL would otherwise become a directory with a strange name."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path."""
        if "://" in str(value):
            self.fail(
                f"{value} is an URL, and this is written to a disk (docs/object_storage.md says "
                "what object stores are for)", param, ctx,
            )  # fmt: skip
        return super().convert(value, param, ctx)


PLACE = PlaceType()


class Token(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2
    """A name without blanks that can stand in a file header."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the spelling."""
        if not re.fullmatch(r"[A-Za-z0-9._-]+", value):
            self.fail(f"{value!r} is not made of letters, digits, '.', '_' and '-'", param, ctx)
        return str(value)


class CommaSeparated(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2
    """``a,b,c`` as a tuple of strings."""

    name = "a,b,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Split at commas; empty parts are an error."""
        if isinstance(value, tuple):
            return value
        parts = tuple(part.strip() for part in str(value).split(","))
        if not all(parts):
            self.fail(f"{value!r} has an empty part", param, ctx)
        return parts


def _with_bokeh(context: click.Context, parameter: click.Parameter, value: Path | None) -> Any:
    """Refuse a report that nothing here could draw, before hours of work."""
    if value is not None and importlib.util.find_spec("bokeh") is None:
        raise click.UsageError(
            "--performance-report needs Bokeh: pip install 'primo-scale[report]'."
        )
    return value


bfile_option = click.option(
    "--bfile",
    type=CommaSeparated(),
    required=True,
    metavar="PREFIX[,PREFIX...]",
    help="PLINK 1 fileset(s): PREFIX.bed, .bim and .fam; several are joined (chromosomes).",
)

selection_options = _together(
    [
        click.option("--keep", type=FILE_PATH, help="Only these people (FID IID, or IID)."),
        click.option("--remove", type=FILE_PATH, help="All but these people."),
        click.option("--extract", type=FILE_PATH, help="Only these variant IDs."),
        click.option("--exclude", type=FILE_PATH, help="All but these variant IDs."),
    ]
)

outcome_options = _together(
    [
        click.option(
            "--pheno",
            type=FILE_PATH,
            required=True,
            help="Phenotypes: FID IID NAME... or #IID NAME...; NA and -9 are missing.",
        ),
        click.option("--covar", type=FILE_PATH, help="Covariates, in the same layout."),
        click.option(
            "--pheno-name",
            type=CommaSeparated(),
            help="Only these phenotypes (default: every column).",
        ),
        click.option(
            "--pheno-bounds",
            type=FILE_PATH,
            help="Public bounds: a table of name, lower, upper and optionally mean, sd, type.",
        ),
        click.option(
            "--pheno-moments",
            is_flag=True,
            help="Pay 5% of the release's mu^2 for noisy means and sds of the phenotypes, where "
            "no public ones are known.",
        ),
        click.option(
            "--covar-bounds",
            type=FILE_PATH,
            help="Public bounds of the covariates: a table of name, lower, upper.",
        ),
    ]
)

model_options = _together(
    [
        click.option(
            "--ref-freq",
            type=FILE_PATH,
            help="Public allele frequencies (plink2 --freq of a reference panel).",
        ),
        click.option(
            "--ld-blocks",
            metavar="window:N|FILE",
            help="LD blocks of at most N variants, or a table of chrom start end "
            "(default: one dense block).",
        ),
        click.option(
            "--row-norm",
            type=Number(min=0, min_open=True, max=1e9),
            help="Public bound on the norm of a coded genotype row, in units of the coding "
            "(default: from the public frequencies, docs/maths.md section 6).",
        ),
        click.option(
            "--privacy",
            type=click.Choice(["full", "label", "feature"]),
            default="full",
            show_default=True,
            help="What is protected: a person's whole row; the phenotypes (genotypes and "
            "covariates are public); or genotypes and covariates (phenotypes are public).",
        ),
        click.option(
            "--adjacency",
            type=click.Choice(["replace-one", "add-remove"]),
            default="replace-one",
            show_default=True,
            help="Against which neighbours: a row replaced by any other, or by nothing.",
        ),
        click.option(
            "--nominal-n",
            type=click.IntRange(min=1),
            metavar="N",
            help="A public round size to plan for, where add-remove makes the real one private.",
        ),
        click.option(
            "--subsample",
            type=click.IntRange(min=1),
            metavar="N",
            help="Sum X'X over a secret random N people (method sub-samp-reuse-cov).",
        ),
        click.option(
            "--non-private",
            is_flag=True,
            help="No noise, no clipping; every file is stamped NOT PRIVATE. For validation.",
        ),
    ]
)

budget_options = _together(
    [
        click.option("--epsilon", type=float, help="Privacy parameter epsilon of this release."),
        click.option("--delta", type=float, help="Privacy parameter delta; about 1/n^2 is usual."),
        click.option(
            "--accept-noise",
            is_flag=True,
            help="Spend the budget also where the weights are expected to be noise.",
        ),
    ]
)

ledger_options = _together(
    [
        click.option("--ledger", type=FILE_PATH, help="Ledger (default: one per user)."),
        click.option(
            "--cohort",
            metavar="NAME",
            help="The cohort's name in the ledger. Every release states it.",
        ),
    ]
)

release_options = _together(
    [
        click.option(
            "--ridge",
            default="auto",
            show_default=True,
            metavar="auto|VALUE",
            help="Penalty on coded genotypes, in the units of scikit-learn's Ridge(alpha).",
        ),
        click.option(
            "--method",
            default="auto",
            show_default=True,
            metavar="auto|NAME",
            help="How noise and weights are made; docs/methods.md has the table.",
        ),
        click.option(
            "--shrinkage",
            type=click.Choice(["known-noise", "ridge-at-noise-norm", "sure", "james-stein"]),
            help="How noisy weights are shrunk, where the method leaves it open "
            "(default: known-noise).",
        ),
        click.option(
            "--purge-intermediates",
            is_flag=True,
            help="Once published, delete what it was made from; the release and the ledger stay.",
        ),
        click.option(
            "--genome-build",
            type=Token(),
            default="NR",
            show_default=True,
            help="Genome build of the positions, for the PGS files.",
        ),
    ]
)

execution_options = _together(
    [
        click.option("--scheduler", metavar="ADDRESS", help="A running Dask scheduler."),
        click.option(
            "--tls",
            type=DIRECTORY,
            help="Certificates that the scheduler was started with (pipelines.certificates).",
        ),
        click.option(
            "--no-tls",
            is_flag=True,
            help="Talk to the scheduler in plain text: everybody on the network is trusted.",
        ),
        click.option(
            "--cluster",
            type=FILE_PATH,
            metavar="FILE.toml",
            help="Profile of a cluster: SLURM, PBS, LSF, SGE, Kubernetes and others; cluster/ has "
            "examples.",
        ),
        click.option(
            "--workers", type=click.IntRange(min=1), help="Local worker processes (default: CPUs)."
        ),
        click.option(
            "--memory-limit",
            type=MemorySize(),
            metavar="SIZE",
            help="Of each local worker, e.g. 4GiB (default: the share of one CPU).",
        ),
        click.option(
            "--object-store",
            type=BucketType(),
            metavar="URL",
            help="Keep what workers read and write, and the sums of it, at s3://bucket/prefix, for "
            "workers that do not see this machine's files.",
        ),
        click.option(
            "--kernel",
            type=click.Choice(
                [
                    *("auto", "amx", "lookup", "signs", "vnni"),
                    *("torch", "cuda", "float32", "float64"),
                ]
            ),
            default="auto",
            show_default=True,
            help="What multiplies genotypes; all give the same integers.",
        ),
        click.option(
            "--dry-run",
            is_flag=True,
            help="Check options and headers, say what the run needs, and do nothing.",
        ),
        click.option(
            "--performance-report",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE.html",
            callback=_with_bokeh,
            help="Write Dask's report of the accumulation, in the work directory unless FILE is "
            "absolute. PRIVATE.",
        ),
    ]
)


encryption_option = click.option(
    "--encryption-key",
    type=FILE_PATH,
    help="Encrypt what is kept about people with the key in this file (pipelines.encryption_key).",
)


def work_dir_option(*, required: bool) -> Decorator:
    """``--work-dir``, which a command with ``--out`` can do without."""
    return click.option(
        "--work-dir",
        type=LocalPathType(file_okay=False, path_type=Path),
        required=required,
        help="Private directory for intermediate files" + ("." if required else " (OUT.work)."),
    )


def out_option(help_text: str) -> Decorator:
    """``--out``, the path that a command creates."""
    return click.option("--out", type=LocalPathType(path_type=Path), required=True, help=help_text)
