"""Requests of a release and of its stages: every option, checked once, then frozen."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen

from primo_scale.errors import Field, UsageError
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
from primo_scale.kernels import AUTOMATIC
from primo_scale.kernels import NAMES as KERNELS
from primo_scale.methods.catalogue import COMPONENTS_METHOD, ESTIMATORS, SHRINKAGES, Estimator
from primo_scale.run import fields
from primo_scale.run.fields import HEADINGS, NEEDED, Checked, Kind, declared, option, read_fields
from primo_scale.storage.locations import Location, ObjectUrl, parse_location

if TYPE_CHECKING:
    from primo_scale.cluster.job_queues import Profile
    from primo_scale.genotypes.pandas_plink import PlinkArray
    from primo_scale.genotypes.source import SourceFiles
    from primo_scale.privacy.mechanism import Guarantee

GENOTYPES, OUTCOMES, PRIVACY, FILES, MODEL, MACHINES = HEADINGS
FORMATS = ("bfile", "pfile", "bgen", "vcf", "vcz")


def _chromosomes(value: Any, _: str) -> tuple[str, ...]:
    from primo_scale.genotypes.tables import parse_chromosomes  # loads NumPy

    several = (value,) if isinstance(value, int | str) else value
    return parse_chromosomes(",".join(map(str, several)))


@frozen(slots=False, eq=False, repr=False, field_transformer=read_fields)
class GenotypeInputs(Checked):
    """Genotype files of the same people, of one format.

    Attributes
    ----------
    bfile
        PLINK 1: PREFIX.bed, .bim and .fam. Several are joined, also as 'chr{1..22}', chr@ (1 to 22)
        or FILE.list (one a line).
    pfile
        PLINK 2: PREFIX.pgen, .pvar or .pvar.zst, and .psam.
    bgen
        BGEN 1.2 or 1.3; hard calls as plink2 --hard-call-threshold 0.1, or `dosages`.
    vcf
        VCF or BCF, compressed by bgzip and indexed.
    vcz
        VCF-Zarr, as bio2zarr writes it.
    sample
        The .sample file of the BGEN files.
    bgen_order
        Order of the alleles in BGEN files, as plink2 --bgen (default: ref-first); the other one is
        counted.
    dosages
        Read dosages in place of hard calls (PGEN, BGEN, DS or GP of VCF), in steps of 1/127 of a
        copy.
    """

    HEADING = GENOTYPES

    bfile: tuple[Path, ...] | None = option(fields.PATHS, excludes="pfile bgen vcf vcz dosages")
    pfile: tuple[Path, ...] | None = option(fields.PATHS, excludes="bgen vcf vcz")
    bgen: tuple[Path, ...] | None = option(fields.PATHS, excludes="vcf vcz")
    vcf: tuple[Path, ...] | None = option(fields.PATHS, excludes="vcz")
    vcz: tuple[Path, ...] | None = option(fields.PATHS)
    sample: Path | None = option(fields.FILE, needs="bgen")
    bgen_order: str | None = option(
        fields.choice(("ref-first", "ref-last", "ref-unknown")), expert=True, needs="bgen"
    )
    dosages: bool = option(fields.FLAG)

    @property
    def source_files(self) -> SourceFiles | None:
        """Files of the format that is given, or None."""
        from primo_scale.genotypes.source import REF_FIRST, SourceFiles
        from primo_scale.genotypes.store import DOSAGES, HARD_CALLS  # loads NumPy

        given = next((name for name in FORMATS if getattr(self, name) is not None), None)
        if given is None:
            return None
        order, packing = self.bgen_order or REF_FIRST, DOSAGES if self.dosages else HARD_CALLS
        return SourceFiles(getattr(self, given), given, self.sample, order, packing)

    @property
    def sources(self) -> SourceFiles:
        """Files of the format that is given."""
        files = self.source_files
        if files is None or not files.paths:
            options = ", ".join(f"`{name}`" for name in FORMATS)
            raise UsageError("no genotypes are given", remedy=f"Give one of {options}")
        return files


@frozen(slots=False, eq=False, repr=False, field_transformer=read_fields)
class GenotypeFiles(GenotypeInputs):
    """Genotype files of one format, with filters of their people and variants.

    Attributes
    ----------
    keep
        Only these people (FID IID, or IID).
    remove
        All but these people.
    extract
        Only these variant IDs.
    exclude
        All but these variant IDs.
    chromosomes
        Only these chromosomes, such as 1-4,22,X,PAR1 (default: 1-22, X, XY, PAR1, PAR2; Y and MT
        cannot take part).
    ref_maf
        Only variants whose minor allele is at least as frequent in the panel of `ref_freq`.
    ref_freq
        Public allele frequencies (plink2 --freq of a reference panel). Without them, genotypes are
        coded around one copy, which costs accuracy.
    extract_by_prior
        Only the `top` variants that matter most in this public scoring file.
    top
        Number of variants that `extract_by_prior` leaves, those with the largest weight^2 2p(1-p)
        by the public frequencies p of `ref_freq`.
    """

    HEADING = GENOTYPES

    keep: Path | None = option(fields.FILE)
    remove: Path | None = option(fields.FILE)
    extract: Path | None = option(fields.FILE)
    exclude: Path | None = option(fields.FILE, expert=True)
    chromosomes: tuple[str, ...] | None = option(Kind("list of chromosomes", _chromosomes, "LIST"))
    ref_maf: float | None = option(fields.number("[0, 0.5]"), expert=True, needs="ref_freq")
    ref_freq: Path | None = option(fields.PUBLIC_FILE, heading=MODEL)
    extract_by_prior: Path | None = option(fields.FILE, expert=True, needs="top ref_freq")
    top: int | None = option(fields.count(), expert=True, needs="extract_by_prior")

    def check(self) -> None:
        """Refuse a request without genotypes."""
        if getattr(self, "genotypes", None) is None:
            self.sources  # noqa: B018


@frozen(slots=False, eq=False, repr=False, field_transformer=read_fields)
class OutcomeTables(Checked):
    """Tables of phenotypes and covariates, with the public bounds of their columns.

    Attributes
    ----------
    pheno
        Phenotypes: FID IID NAME... or #IID NAME..., with blanks, tabs or commas; NA and -9 are
        missing.
    pheno_bounds
        Public bounds, not read off the data: a table of name, lower, upper and optionally mean, sd,
        type.
    covar
        Covariates, in the same layout.
    covar_bounds
        Public bounds of the covariates: a table of name, lower, upper.
    pheno_name
        Only these phenotypes, such as BMI,lipid_* (default: every column).
    covar_name
        Only these covariates, such as age,PC? (default: every column).
    pc_loadings
        Loadings of a public panel (plink2 --pca allele-wts --freq counts): the principal components
        of each person are covariates, at no cost in privacy.
    """

    HEADING = OUTCOMES

    pheno: Path = option(fields.FILE, default=NEEDED)
    pheno_bounds: Path | None = option(fields.FILE)
    covar: Path | None = option(fields.FILE)
    covar_bounds: Path | None = option(fields.FILE, needs="covar|pc_loadings")
    pheno_name: tuple[str, ...] | None = option(fields.NAMES)
    covar_name: tuple[str, ...] | None = option(fields.NAMES, needs="covar")
    pc_loadings: Path | None = option(fields.PUBLIC_FILE, metavar="PREFIX.eigenvec.allele")

    def check(self) -> None:
        """Refuse a table without bounds, and an empty choice of phenotypes."""
        for name in ("pheno", "covar"):
            if getattr(self, name) is not None and getattr(self, f"{name}_bounds") is None:
                raise UsageError(
                    "public bounds are needed, since bounds taken from the data would be private",
                    where=Field(f"{name}_bounds"),
                    remedy="Give a table of name, lower and upper for every column",
                )
        if self.pheno_name == ():
            remedy = "Leave it out for every phenotype"
            raise UsageError("names no phenotype", where=Field("pheno_name"), remedy=remedy)


def _ld_blocks(value: Any, name: str) -> str:
    return str(fields.regular_file(fields.one_line(os.fspath(value)), name))


@frozen(slots=False, eq=False, repr=False, field_transformer=read_fields)
class Model(Checked):
    """Public choices that shape the statistics.

    Attributes
    ----------
    ref_freq
        Public allele frequencies (plink2 --freq of a reference panel). Without them, genotypes are
        coded around one copy, which costs accuracy.
    ld_blocks
        LD blocks of at most N variants, or a table of chrom start end (default: those of
        `ld_panel`, or one dense block).
    ld_panel
        PLINK 1 filesets of public people of the cohort's ancestry, as for `bfile`, whose linkage
        disequilibrium reduces the noise (docs/maths/weights.md).
    panel_populations
        IID and population of the people of `ld_panel`: how much of a score lies between populations
        and, with `pc_loadings` and `hold_out`, its accuracy within them.
    ld_components
        Sum LD components of the panel in place of variants.
    genetic_factors
        Public guess of the number of genetic factors that the phenotypes share, for which LD
        components are chosen (docs/maths/weights.md).
    rounds
        Measurements of X'Y; the second has directions chosen by the first (default: 2 over LD
        components of up to 100 phenotypes, without `genetic_factors` or `score_features`, else 1;
        docs/maths/rounds.md).
    row_norm
        Public bound on the norm of a coded genotype row, in units of the coding (default: from the
        public frequencies, docs/maths/planning.md).
    """

    HEADING = MODEL

    ref_freq: Path | None = option(fields.PUBLIC_FILE)
    ld_blocks: str | None = option(Kind("path or window:N", _ld_blocks, "window:N|FILE"))
    ld_panel: tuple[Path, ...] | None = option(fields.PUBLIC_FILES, needs="ref_freq")
    panel_populations: Path | None = option(fields.PUBLIC_FILE, expert=True, needs="ld_panel")
    ld_components: bool = option(fields.FLAG, default=True)
    genetic_factors: int | None = option(
        fields.count(metavar="K"), expert=True, needs="ld_panel ld_components"
    )
    rounds: int | None = option(fields.count("[1, 2]"))
    row_norm: float | None = option(fields.number("(0, inf)"), expert=True)

    @property
    def sums_components(self) -> bool:
        """Whether LD components may take the place of the variants."""
        return self.ld_components


@frozen(slots=False, eq=False, repr=False, field_transformer=read_fields)
class PrivacyParameters(Checked):
    """Privacy parameters of a release, or none.

    Attributes
    ----------
    epsilon
        Privacy parameter epsilon of this release.
    delta
        Privacy parameter delta; about 1/n^2 is usual.
    non_private
        No noise, and rows are not scaled down; values are still cut to their bounds. Every file is
        stamped NOT PRIVATE. For validation.
    """

    HEADING = PRIVACY

    epsilon: float | None = option(fields.number(), needs="delta")
    delta: float | None = option(fields.number(), needs="epsilon")
    non_private: bool = option(fields.FLAG, excludes="epsilon delta subsample hold_out row_norm")

    def check(self) -> None:
        """Refuse parameters out of range."""
        self.budget  # noqa: B018

    @property
    def budget(self) -> tuple[float, float] | None:
        """(epsilon, delta), or None where they are not given."""
        from primo_scale.gaussian.calibration import release_mu  # loads NumPy

        if self.epsilon is None or self.delta is None:
            return None
        release_mu(self.epsilon, self.delta)
        return self.epsilon, self.delta


@frozen(slots=False, eq=False, repr=False, field_transformer=read_fields)
class Privacy(PrivacyParameters):
    """Guarantee that a release gives, or that statistics are prepared for.

    Attributes
    ----------
    unit
        What is protected: a person's whole row; the phenotypes (genotypes and covariates are
        public); or genotypes and covariates (phenotypes are public).
    adjacency
        Against which neighbours: a row replaced by any other, or by nothing.
    nominal_n
        Public round size to plan for, where add-remove makes the real one private.
    subsample
        Sum X'X over a secret random N people (method sub-samp-reuse-cov).
    hold_out
        Leave this share of the people, chosen at random, out of all sums, and measure the weights
        with them, under the same epsilon and delta: R^2 with an interval, and slope
        (docs/maths/hold-out.md).
    """

    HEADING = PRIVACY

    unit: PrivacyUnit = option(fields.choice(PrivacyUnit), default=PrivacyUnit.FULL)
    adjacency: Adjacency = option(fields.choice(Adjacency), default=Adjacency.REPLACE_ONE)
    nominal_n: int | None = option(fields.count())
    subsample: int | None = option(fields.count(), expert=True)
    hold_out: float | None = option(fields.number("(0, 0.5]", "SHARE"), excludes="subsample")

    def check(self) -> None:
        """Refuse what no theorem covers, and a missing or needless nominal size."""
        hides_n = self.hides_n
        if hides_n != (self.nominal_n is not None):
            raise UsageError(
                "the number of people is private: name a public round size to plan for"
                if hides_n
                else "the number of people is public and needs no stand-in",
                where=Field("nominal_n"),
                value=self.nominal_n,
                remedy="Give the order of magnitude, such as 500000" if hides_n else "Leave it out",
            )
        if self.hold_out is not None and self.adjacency is not Adjacency.REPLACE_ONE:
            what, remedy = "is for replace-one alone", "Leave out `hold_out`, or `adjacency`"
            raise UsageError(what, where=Field("hold_out"), remedy=remedy)

    @property
    def guarantee(self) -> Guarantee | None:
        """Guarantee of the release, or None where epsilon and delta are not given."""
        from primo_scale.privacy.mechanism import Guarantee  # loads NumPy

        return None if self.budget is None else Guarantee(*self.budget, self.unit, self.adjacency)

    @property
    def hides_n(self) -> bool:
        """Whether the number of people is private."""
        from primo_scale.privacy.mechanism import Guarantee  # loads NumPy

        # It does not depend on epsilon and delta.
        return not self.non_private and Guarantee(1.0, 1e-6, self.unit, self.adjacency).n_is_private


@frozen
class PriorFile:
    """Scoring file that is a prior of one phenotype, or of all if `phenotype` is None."""

    path: Path
    phenotype: str | None = None

    def __str__(self) -> str:
        return f"{self.path}" if self.phenotype is None else f"{self.phenotype}={self.path}"


def _prior_file(value: Any, name: str) -> PriorFile:
    if isinstance(value, PriorFile):
        return value
    text = os.fspath(value)
    phenotype, equals, rest = text.partition("=")
    path = Path(text if Path(text).exists() or not equals else rest)
    if not path.exists():
        raise UsageError("no such file", value=text)
    return PriorFile(fields.regular_file(path, name), phenotype if path != Path(text) else None)


PRIORS = fields.several(Kind("file", _prior_file, "[PHENOTYPE=]FILE"), repeats=True)


@frozen(slots=False, eq=False, repr=False, field_transformer=read_fields)
class Fit(Checked):
    """Method and shrinkage that turn private statistics into weights.

    Attributes
    ----------
    method
        Method of noise and weights; docs/methods.md has the table.
    shrinkage
        Shrinkage of noisy weights, where the method allows a choice (default: effect-variances, or
        point-normal with LD components).
    ridge
        Penalty, as scikit-learn's Ridge(alpha) on genotypes of about unit variance: their codes
        divided by 16 with `ref_freq`, and copies minus 1 without it.
    gamma
        Share of mu^2 for the smallest eigenvalue in the method ada-ssp-budget (default: 0.05).
    prior_weights
        Public score to build on, of every phenotype or of one: a PGS Catalog file, a release, or
        its weights.tsv.gz; may be repeated. A useless one costs next to nothing
        (docs/maths/prior-scores.md).
    """

    HEADING = MODEL

    method: str = option(fields.TEXT, default="auto", metavar="auto|NAME")
    shrinkage: str | None = option(fields.choice(SHRINKAGES), expert=True)
    ridge: float | None = option(fields.AUTO_NUMBER, excludes="shrinkage")
    gamma: float | None = option(fields.number("(0, 1)"), expert=True)
    prior_weights: tuple[PriorFile, ...] = option(PRIORS, default=())

    @property
    def estimator(self) -> Estimator | None:
        """Rule that is asked for; None stands for the rule of the method."""
        if self.ridge is not None:
            return ESTIMATORS["ridge"]
        return None if self.shrinkage is None else ESTIMATORS[self.shrinkage]


def _size(value: Any, _: str) -> str:
    from primo_scale.cluster.job_queues import size_bytes  # loads msgspec

    size_bytes(value)  # refuses a number alone, which could be bytes or a share of the machine
    return str(value)


def _bucket(value: Any, _: str) -> ObjectUrl:
    found = parse_location(str(value))
    if isinstance(found, Path):
        raise UsageError("not a URL such as s3://bucket/prefix", value=value)
    return found


@frozen(slots=False, eq=False, repr=False, field_transformer=read_fields)
class Payment(Checked):
    """Account in the ledger that pays.

    Attributes
    ----------
    ledger
        Ledger (default: one per user).
    cohort
        The cohort's name in the ledger. Every release states it.
    """

    HEADING = PRIVACY

    ledger: Path | None = option(fields.FILE)
    cohort: str | None = option(fields.LINE)

    @property
    def ledger_path(self) -> Path:
        """Ledger file of the run."""
        from primo_scale.ledger.ledger import default_ledger_path  # loads NumPy

        return self.ledger or default_ledger_path()


def _release_directory(value: Any, name: str) -> Path:
    absolute = fields.local_path(value, name).absolute()
    if not absolute.name:
        raise UsageError("a release needs a directory of its own", value=absolute)
    return absolute


RELEASE = Kind("path", _release_directory, "DIR")
"""Directory of a release; it is absolute, because the work directory may lie beside it."""


def beside_release(out: Path) -> Path:
    """Return the default work directory of a release."""
    return out.with_name(f"{out.name}.work")


@frozen(slots=False, eq=False, repr=False, field_transformer=read_fields)
class Run(Payment):
    """Choices of every run that computes statistics or publishes them.

    Attributes
    ----------
    work_dir
        Private directory for intermediate files.
    encryption_key
        Encrypt data about people with the key in this file (primo-scale key new).
    accept_noise
        Spend the budget even if the weights are expected to be noise.
    """

    HEADING = FILES

    _work_dir: Path | None = option(fields.PATH)
    encryption_key: Path | None = option(fields.FILE)
    accept_noise: bool = option(fields.FLAG, heading=PRIVACY)

    @property
    def work_dir(self) -> Path:
        """Private directory of the run."""
        if self._work_dir is None:
            raise UsageError("is needed", where=Field("work_dir"))
        return self._work_dir


@frozen(slots=False, kw_only=True, eq=False, repr=False, field_transformer=read_fields)
class IngestRequest(GenotypeFiles):
    """Genotype files to write to a packed store.

    Attributes
    ----------
    out
        Genotype store to write, such as genotypes.zarr (private).
    ld_panel
        PLINK 1 filesets of public people, whose linkage disequilibrium tells how much of the score
        the variants of `top` explain, for forecasts.
    chunk_variants
        Variants of a chunk (default: 2048, of dosages 512).
    chunk_samples
        People of a chunk, a multiple of 4.
    """

    HEADING = FILES

    out: Path = option(fields.PATH, default=NEEDED)
    ld_panel: tuple[Path, ...] | None = option(
        fields.PUBLIC_FILES, expert=True, needs="extract_by_prior"
    )
    chunk_variants: int | None = option(fields.count(), expert=True)
    chunk_samples: int = option(fields.count(), default=8192, expert=True)


@frozen(slots=False, kw_only=True, eq=False, repr=False, field_transformer=read_fields)
class AccumulateRequest(OutcomeTables, Privacy, Model, Run):
    """Exact statistics of a cohort, in a work directory, and the machines that compute them.

    No result depends on the machines.

    Attributes
    ----------
    genotypes
        Store written by ingest: a path or a URL.
    scheduler
        A running Dask scheduler.
    tls
        Certificates that the scheduler was started with (primo-scale cluster certificates).
    no_tls
        Talk to the scheduler in plain text: everybody on the network is trusted.
    cluster
        Profile of a job queue: SLURM, PBS, LSF or SGE; cluster/ has examples.
    workers
        Worker processes on this machine (default: threads of the command itself).
    memory_limit
        Memory limit of each local worker, such as 4GiB (default: the share of one CPU).
    object_store
        Keep the stores of the workers and the sums at s3://bucket/prefix, for workers that cannot
        read this machine's files.
    kernel
        Code that multiplies genotypes; every kernel gives the same integers.
    """

    HEADING = MACHINES

    genotypes: Location = option(fields.LOCATION, default=NEEDED, heading=GENOTYPES)
    scheduler: str | None = option(fields.TEXT, metavar="ADDRESS")
    tls: Path | None = option(fields.PATH, needs="scheduler", excludes="no_tls")
    no_tls: bool = option(fields.FLAG, expert=True)
    cluster: Path | None = option(
        fields.FILE, metavar="FILE.toml", excludes="workers memory_limit scheduler tls no_tls"
    )
    workers: int | None = option(fields.count())
    memory_limit: str | None = option(Kind("size such as 4GiB", _size, "TEXT"), expert=True)
    object_store: ObjectUrl | None = option(Kind("URL", _bucket, "URL"))
    kernel: str = option(fields.choice(KERNELS), default=AUTOMATIC, expert=True)

    def check(self) -> None:
        """Refuse a missing guarantee, a cluster open to strangers, or one that shows n."""
        from primo_scale.cluster.job_queues import SchedulerProfile  # loads msgspec

        self.work_dir  # noqa: B018  # refuses a request without it
        _check_has_budget(self)
        profile = self.profile
        if not isinstance(profile, SchedulerProfile):
            return
        from primo_scale.cluster.security import security_towards

        # An open or impossible connection is refused before hours of work.
        security_towards(profile.address, profile.tls)
        if self.nominal_n is not None:
            raise UsageError(
                "the number of people is private, and a shared scheduler shows that of tasks",
                where=Field("scheduler"),
                remedy="Use local workers or a job queue, or `adjacency` replace-one",
            )

    @cached_property
    def profile(self) -> Profile | None:
        """Processes that run the tasks, or None for threads of this one, one for each CPU."""
        from primo_scale.cluster import job_queues  # loads msgspec

        if self.cluster is not None:
            return job_queues.read_profile(self.cluster)
        if self.scheduler is not None:
            tls = str(self.tls) if self.tls else not self.no_tls
            return job_queues.SchedulerProfile(self.scheduler, tls)
        if self.workers or self.memory_limit:
            return job_queues.LocalProfile(self.workers, self.memory_limit)
        return None


def to_build_name(value: str, _: str = "") -> str:
    """Return the PGS Catalog's name of a genome build."""
    from primo_scale.genotypes.tables import BUILD_NAMES, build_name  # loads NumPy

    found = build_name(value)
    if found is None:
        limit = ", ".join([*BUILD_NAMES, "hg19", "hg38"])
        raise UsageError("not a valid choice", value=value, limit=limit)
    return found


BUILD = Kind("str", to_build_name, "GRCh37|GRCh38|NCBI36")


@frozen(slots=False, kw_only=True, eq=False, repr=False, field_transformer=read_fields)
class FinalizeRequest(PrivacyParameters, Fit, Run):
    """A release of the finished statistics in a work directory.

    Attributes
    ----------
    out
        The release directory to publish.
    sumstats
        Publish summary statistics too (GWAS-SSF): effect, standard error and p-value of each
        variant alone, at no further cost. Needs `ref_freq` and, with `ld_panel`, --no-ld-components
        where the statistics are made.
    calibrate
        Multiply the weights of each phenotype by the slope that `hold_out` measures, if its
        interval is above 0, and excludes 1 or has ends within a factor of 2.
    genome_build
        Genome build of the positions, for the PGS files; hg19 and hg38 mean the same (default:
        inferred from known variants; NR: not reported).
    deployment
        YAML file with curator, purpose, region and other_releases, a text each: they stand in the
        report, and deployment.yaml is a record for the registry of deployments.
    purge_intermediates
        Delete the private intermediate files after publication. The release and the ledger stay.
    """

    HEADING = FILES

    out: Path = option(RELEASE, default=NEEDED)
    sumstats: bool = option(fields.FLAG)
    calibrate: bool = option(fields.FLAG, expert=True)
    genome_build: str | None = option(BUILD)
    deployment: Path | None = option(fields.FILE, excludes="non_private")
    purge_intermediates: bool = option(fields.FLAG)

    def check(self) -> None:
        """Refuse a missing guarantee, and an output without a name."""
        _check_has_budget(self)
        self.work_dir  # noqa: B018  # refuses a request without it


def _source(value: Any, name: str) -> object:
    """Return the location of a store, or an array of pandas-plink."""
    if isinstance(value, str | Path | ObjectUrl):
        return fields.LOCATION.read(value, name)
    from primo_scale.genotypes.pandas_plink import PlinkArray  # loads Zarr

    if isinstance(value, PlinkArray):
        return value
    if not hasattr(value, "dims"):
        raise TypeError
    return PlinkArray(value)


_OF_FILES = " ".join(declared(GenotypeFiles).keys() - {"ref_freq"})
SOURCE = Kind("path or URL or DataArray of read_plink1_bin", _source, "PATH|URL")


@frozen(slots=False, kw_only=True, eq=False, repr=False, field_transformer=read_fields)
class ReleaseRequest(GenotypeFiles, AccumulateRequest, FinalizeRequest):
    """A release from genotype files: ingest, accumulation and finalization in one.

    `genotypes` may also be the array of ``pandas_plink.read_plink1_bin``, with copies of a1 (its
    default).

    Attributes
    ----------
    genotypes
        Store written by ingest, in place of files.
    work_dir
        Private directory for intermediate files (OUT.work).
    score_features
        Public scores (files of the PGS Catalog, releases, their weights.tsv.gz, or folders) to
        stack: they take the place of the variants, and the result is one score of variants for each
        phenotype (docs/maths/weights.md).
    """

    genotypes: Location | PlinkArray | None = option(  # type: ignore[assignment]
        SOURCE, heading=GENOTYPES, excludes=_OF_FILES
    )
    _work_dir: Path | None = option(fields.PATH, heading=FILES)
    score_features: tuple[Path, ...] = option(
        fields.SCORES,
        default=(),
        heading=MODEL,
        needs="ld_panel",
        excludes="prior_weights sumstats subsample ld_blocks row_norm panel_populations",
    )

    def check(self) -> None:
        """Refuse a method that does not fit."""
        from primo_scale.methods.catalogue import estimator_for, method_named

        if not self.non_private and self.method != "auto":
            method = method_named(self.method, self.unit)
            method.recipe(1, self.subsample)
            estimator_for(method, self.estimator)

    @property
    def sums_components(self) -> bool:
        """Whether LD components may take the place of the variants, which some methods need."""
        return (
            self.ld_components and self.ridge is None and self.method in ("auto", COMPONENTS_METHOD)
        )

    @property
    def work_dir(self) -> Path:
        """Private directory of the run."""
        return self._work_dir or beside_release(self.out)

    @property
    def files(self) -> GenotypeFiles | PlinkArray:
        """Genotypes to be ingested, where no store is given."""
        given = self.genotypes
        return self if given is None or isinstance(given, Location) else given


RunRequest = AccumulateRequest | FinalizeRequest


def _check_has_budget(given: PrivacyParameters) -> None:
    if given.budget is None and not given.non_private:
        raise UsageError(
            "a private release needs `epsilon` and `delta`",
            remedy="Give both, or `non_private` for a validation run that protects nobody",
        )


# ---- Forecast ------------------------------------------------------------------------------------


@frozen(slots=False, kw_only=True, eq=False, repr=False, field_transformer=read_fields)
class ForecastRequest(Checked):
    """Releases to forecast: every combination of people, phenotypes and epsilons.

    Attributes
    ----------
    ld_panel
        PLINK 1 filesets of public people, with the variants of the release.
    ref_freq
        Their allele frequencies (plink2 --freq).
    people
        Sizes of cohorts.
    phenotypes
        Numbers of phenotypes of a release.
    epsilon
        Values of epsilon.
    delta
        Delta of every release (default: 1 / people^2).
    extract
        List of the variants that take part.
    ld_components
        Sum LD components of the panel in place of variants.
    """

    HEADING = "Forecast without a cohort"

    ld_panel: tuple[Path, ...] = option(fields.PATHS, default=NEEDED)
    ref_freq: Path = option(fields.FILE, default=NEEDED)
    people: tuple[int, ...] = option(
        fields.several(fields.count(), metavar="N[,N...]"), default=NEEDED
    )
    phenotypes: tuple[int, ...] = option(
        fields.several(fields.count(), metavar="L[,L...]"), default=(1, 10, 100)
    )
    epsilon: tuple[float, ...] = option(
        fields.several(fields.number(), metavar="E[,E...]"), default=(1.0, 5.0)
    )
    delta: float | None = option(fields.number())
    extract: Path | None = option(fields.FILE)
    ld_components: bool = option(fields.FLAG, default=True)

    def check(self) -> None:
        """Refuse numbers out of range."""
        from primo_scale.gaussian.calibration import DELTA_RANGE, release_mu  # loads NumPy

        for name in ("people", "phenotypes"):
            sizes = getattr(self, name)
            if min(sizes, default=0) < 1:
                raise UsageError("is not a positive number", where=Field(name), value=sizes)
        fewest = min(self.people)
        if self.delta is None and self.delta_of(fewest) > DELTA_RANGE[1]:
            raise UsageError(
                "are too few for a delta of 1/people^2",
                where=Field("people"),
                value=fewest,
                limit=f"at least {math.ceil(DELTA_RANGE[1] ** -0.5)}",
                remedy="Give more people, or `delta`",
            )
        for people, epsilon in itertools.product(self.people, self.epsilon):
            release_mu(epsilon, self.delta_of(people))

    def delta_of(self, people: int) -> float:
        """Return the delta of a release of so many people."""
        return float(people) ** -2 if self.delta is None else self.delta


# ---- Evaluation ----------------------------------------------------------------------------------


def _prevalences(value: Any, _: str) -> dict[str, float]:
    if not isinstance(value, Mapping):
        texts = (value,) if isinstance(value, str) else value
        value = {name: share for name, _, share in (text.rpartition("=") for text in texts)}
    shares = {name: float(share) for name, share in value.items()}
    for name, prevalence in shares.items():
        if not 0 < prevalence < 1:
            raise UsageError("is no prevalence", value=f"{name}={prevalence}", limit="(0, 1)")
    return shares


PREVALENCES = Kind("mapping of str to float", _prevalences, "NAME=K", several=True, repeats=True)


@frozen(slots=False, kw_only=True, eq=False, repr=False, field_transformer=read_fields)
class EvaluationRequest(GenotypeInputs):
    """Evaluation of scores in people who consented, are public, or are simulated.

    The cohort that a private release was made from must not be evaluated: the results have no
    noise.

    Attributes
    ----------
    weights
        Release, its weights.tsv.gz, or PGS Catalog file (format 2.0). Repeatable.
    genotypes
        Store written by ingest, in place of files.
    pheno
        Phenotypes. A score is compared with the phenotype of its name.
    covar
        Covariates.
    pheno_name
        Only these phenotypes.
    covar_name
        Only these covariates.
    pc_loadings
        Loadings of a public panel, as for release: the principal components of each person are
        covariates.
    groups
        Table of IID and group, for results within the groups together, and by group.
    prevalence
        Share of cases in the population, for the liability scale. Repeatable.
    out
        Directory to create.
    """

    HEADING = OUTCOMES

    weights: tuple[Path, ...] = option(fields.SCORES, default=NEEDED, heading="Scores")
    genotypes: Location | None = option(fields.LOCATION, heading="Genotypes")
    pheno: Path = option(fields.FILE, default=NEEDED)
    covar: Path | None = option(fields.FILE)
    pheno_name: tuple[str, ...] | None = option(fields.NAMES)
    covar_name: tuple[str, ...] | None = option(fields.NAMES, needs="covar")
    pc_loadings: Path | None = option(fields.FILE, metavar="PREFIX.eigenvec.allele")
    groups: Path | None = option(fields.FILE)
    prevalence: Mapping[str, float] = option(PREVALENCES, default=())
    out: Path = option(fields.PATH, default=NEEDED, heading=FILES)

    def check(self) -> None:
        """Refuse a request without weights or people, or names of columns without a table."""
        if (self.source_files is None) == (self.genotypes is None):
            raise UsageError("people come from files or from `genotypes`", remedy="Give one")


# ---- Budgets, simulation and audit --------------------------------------------------------------


@frozen(slots=False, kw_only=True, eq=False, repr=False, field_transformer=read_fields)
class BudgetRequest(Checked):
    """Total budget of a cohort.

    Attributes
    ----------
    epsilon
        Total epsilon the cohort may spend.
    delta
        Needed for a new budget; an existing one keeps its own.
    unit
        What is protected, as for a release.
    adjacency
        Against which neighbours: a row replaced by any other, or by nothing.
    """

    epsilon: float = option(fields.number(), default=NEEDED)
    delta: float | None = option(fields.number())
    unit: str = option(fields.choice(PrivacyUnit), default="full")
    adjacency: str = option(fields.choice(Adjacency), default="replace-one")


LARGEST_HERITABILITY = 0.95  # age explains the other 0.05
_SEED = fields.count("[0, 9223372036854775807]")


@frozen(slots=False, kw_only=True, eq=False, repr=False, field_transformer=read_fields)
class SimulationRequest(Checked):
    """Parameters of a simulated cohort, whose genotypes are mosaics of a public panel's.

    Attributes
    ----------
    bfile
        PLINK 1 fileset of the panel.
    out
        Files to write: PREFIX.bed, ...
    samples
        People to simulate.
    seed
        Seed of the people.
    variants
        Number of variants; a larger one tiles the panel under new IDs (default: the panel's).
    mean_segment
        Mean number of neighbouring variants copied from one member of the panel. Give fewer for
        variants thinned by LD, which are far apart: their LD is far too large otherwise.
    missing
        Share of genotype calls to make missing.
    phenotypes
        Quantitative traits QT1, QT2, ... of mean 0 and variance 1.
    prevalence
        Add a 0/1 trait CASE with this share of cases.
    heritability
        Heritability of every trait in the simulated population (CASE: on the liability scale).
    causal_fraction
        Share of polymorphic variants that have an effect.
    effects_seed
        Seed of the effects; cohorts with equal seeds and trait options have equal effects.
    """

    bfile: str = option(fields.TEXT, default=NEEDED, metavar="PREFIX")
    out: str = option(fields.TEXT, default=NEEDED, metavar="PREFIX")
    samples: int = option(fields.count(), default=NEEDED)
    seed: int = option(_SEED, default=NEEDED)
    variants: int | None = option(fields.count())
    mean_segment: float = option(fields.number("[1, inf)"), default=200.0)
    missing: float = option(fields.number("[0, 1)"), default=0.0)
    phenotypes: int = option(fields.count("[0, inf)"), default=0)
    prevalence: float | None = option(fields.number("(0, 1)"))
    heritability: float = option(fields.number(f"[0, {LARGEST_HERITABILITY}]"), default=0.3)
    causal_fraction: float = option(fields.number("(0, 1]"), default=0.01)
    effects_seed: int = option(_SEED, default=0)


_ALL = "all"


@frozen(slots=False, kw_only=True, eq=False, repr=False, field_transformer=read_fields)
class AuditRequest(Checked):
    """Mechanisms to attack, and with how many draws.

    Attributes
    ----------
    method
        Method whose mechanisms are audited; docs/methods.md has the table.
    unit
        What is protected.
    adjacency
        Against which neighbours: a row replaced by any other, or by nothing.
    epsilon
        Claimed epsilon; 1 to 3 is best.
    delta
        Claimed delta, 1e-30 to 1e-3.
    runs
        Number of releases drawn over each cohort of each pair of neighbours.
    confidence
        Probability that no sound mechanism is accused, over all lines together.
    """

    method: str = option(fields.TEXT, default=_ALL, metavar="all|NAME")
    unit: str = option(fields.choice([*PrivacyUnit, _ALL]), default="full")
    adjacency: str = option(
        fields.choice(("replace-one", "add-remove", _ALL)), default="replace-one"
    )
    epsilon: float = option(fields.number(), default=NEEDED)
    delta: float = option(fields.number(), default=NEEDED)
    runs: int = option(fields.count("[1000, inf)"), default=10_000)
    confidence: float = option(fields.number("(0, 1)"), default=0.99)
