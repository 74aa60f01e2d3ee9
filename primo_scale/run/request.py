"""Requests of the stages of a run: every option of a command, typed, checked once, then frozen.

A field has the name of its option on the command line, with ``_`` for ``-``, unless its
description says otherwise. A path may be given as a string.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import field, fields, frozen
from attrs.converters import optional

from primo_scale.cluster.profile import JobQueueProfile, LocalProfile, Profile, ThreadsProfile
from primo_scale.errors import UsageError
from primo_scale.genotypes.pandas_plink import PlinkArray
from primo_scale.ledger.ledger import default_ledger_path
from primo_scale.methods.catalogue import estimator_for, method_named
from primo_scale.run.design import Budget
from primo_scale.run.execution import Execution
from primo_scale.run.genotype_files import GenotypeFiles
from primo_scale.run.request_parts import (
    Fit,
    Model,
    OutcomeTables,
    Privacy,
    beside_release,
    budget_from,
    one_line,
    regular_file,
    release_directory,
    to_build_name,
)
from primo_scale.run.typed_fields import typed
from primo_scale.run.work_directory import GENOTYPES
from primo_scale.storage.locations import Location, ObjectUrl, parse_location

if TYPE_CHECKING:
    import xarray

_Stage = TypeVar("_Stage", "AccumulateRequest", "FinalizeRequest")


@frozen(kw_only=True, field_transformer=typed)
class _Run:
    """Choices of every run, which the requests of single stages describe."""

    ledger: Path | None = field(default=None, converter=optional(regular_file))
    cohort: str | None = field(default=None, converter=optional(one_line))
    accept_noise: bool = False
    encryption_key: Path | None = field(default=None, converter=optional(regular_file))

    @property
    def ledger_path(self) -> Path:
        """Ledger file of the run."""
        return self.ledger or default_ledger_path()


@frozen(kw_only=True, field_transformer=typed)
class _Publishing(_Run):
    """Choices of every run that publishes a release."""

    out: Path = field(converter=Path)
    fit: Fit = field(factory=Fit)
    genome_build: str | None = field(default=None, converter=to_build_name)
    purge_intermediates: bool = False
    sumstats: bool = False
    calibrate: bool = False


@frozen(kw_only=True, field_transformer=typed)
class AccumulateRequest(_Run):
    """Exact statistics of a cohort, in a work directory.

    Attributes
    ----------
    genotypes : Location
        Genotype store that `primo_scale.ingest` wrote.
    privacy : Privacy
        Guarantee that the statistics are prepared for.
    work_dir : Path
        Private directory for intermediate files and statistics.
    outcomes, model, execution, ledger, cohort, accept_noise, encryption_key
        With the same meaning as in `primo_scale.ReleaseRequest`.

    Raises
    ------
    UsageError
        Choices that exclude each other.
    """

    genotypes: Location = field(converter=parse_location)
    work_dir: Path = field(converter=Path)
    outcomes: OutcomeTables
    privacy: Privacy
    model: Model = field(factory=Model)
    execution: Execution = field(factory=Execution)

    def __attrs_post_init__(self) -> None:
        _check_has_budget(self.privacy)
        if self.privacy.non_private and self.model.row_norm is not None:
            raise UsageError("without noise no row is scaled down", where="--row-norm")
        if self.privacy.nominal_n is not None:
            _check_that_nobody_counts_tasks(self.execution.profile)


@frozen(kw_only=True, field_transformer=typed)
class FinalizeRequest(_Publishing):
    """A release of the finished statistics in a work directory.

    Attributes
    ----------
    epsilon, delta : float or None
        Privacy parameters of the release; required unless `non_private`.
    non_private : bool
        Whether the release has no noise and is stamped NOT PRIVATE.
    work_dir : Path
        Private directory in which `primo_scale.accumulate` left the statistics.
    out : Path
        Release directory to publish.
    fit, genome_build, purge_intermediates, sumstats, calibrate
        With the same meaning as in `primo_scale.ReleaseRequest`.
    ledger, cohort, accept_noise, encryption_key
        With the same meaning as in `primo_scale.ReleaseRequest`.

    Raises
    ------
    UsageError
        Neither a budget nor `non_private`.
    """

    work_dir: Path = field(converter=Path)
    epsilon: float | None = field(default=None, converter=optional(float))
    delta: float | None = field(default=None, converter=optional(float))
    non_private: bool = False

    def __attrs_post_init__(self) -> None:
        _check_has_budget(self)

    @property
    def budget(self) -> Budget | None:
        """(epsilon, delta), or None for a release stamped NOT PRIVATE."""
        return budget_from(self.epsilon, self.delta, non_private=self.non_private)


def _genotypes(
    value: GenotypeFiles | PlinkArray | xarray.DataArray | str | Location,
) -> GenotypeFiles | PlinkArray | Location:
    """Return genotype files, the location of a store, or an array of pandas-plink."""
    if isinstance(value, str | Path | ObjectUrl):
        return parse_location(value)
    if isinstance(value, GenotypeFiles | PlinkArray):
        return value
    if not hasattr(value, "dims"):
        raise TypeError
    return PlinkArray(value)


@frozen(kw_only=True, field_transformer=typed)
class ReleaseRequest(_Publishing):
    """A release from genotype files: ingest, accumulation and finalization in one.

    Attributes
    ----------
    genotypes : GenotypeFiles, Location or xarray.DataArray
        Genotype files and filters; or the store that `primo_scale.ingest` or
        `primo_scale.from_pandas_plink` wrote, which is used where it is; or the array of
        ``pandas_plink.read_plink1_bin``, with copies of a1 (its default).
    outcomes : OutcomeTables
        Phenotypes and covariates.
    privacy : Privacy
        Guarantee of the release; epsilon and delta are required unless it is not private.
    out : Path
        Release directory to publish.
    work_dir : Path
        Private directory for intermediate files; by default `out` with ``.work`` appended.
    model : Model
        Public choices that shape the statistics.
    execution : Execution
        Machines that compute.
    fit : Fit
        Method and shrinkage that turn the statistics into weights.
    genome_build : str or None
        Genome build of the positions; None stands for the build that known variants show.
    purge_intermediates : bool
        Whether the intermediate files are deleted once the release is published.
    sumstats : bool
        Whether the release has summary statistics; they need public allele frequencies.
    calibrate : bool
        Whether the weights are multiplied by the slope that the people held out measure.
    ledger : Path or None
        Ledger file; None stands for the user's own.
    cohort : str or None
        Name of the cohort in the ledger; None stands for an account without a name.
    accept_noise : bool
        Whether budget may be spent on weights that are expected to be noise.
    encryption_key : Path or None
        File of the key that encrypts what is kept about people.

    Raises
    ------
    UsageError
        The request of a stage is refused, or the method does not fit these statistics.
    """

    genotypes: GenotypeFiles | PlinkArray | Location = field(converter=_genotypes)
    outcomes: OutcomeTables
    privacy: Privacy
    out: Path = field(converter=release_directory)
    # Given by the user, or None; the argument is `work_dir`.
    _work_dir: Path | None = field(default=None, converter=optional(Path))
    model: Model = field(factory=Model)
    execution: Execution = field(factory=Execution)

    def __attrs_post_init__(self) -> None:
        self.accumulation, self.finalization  # noqa: B018  # checked here
        if not self.privacy.non_private and self.fit.method != "auto":
            method = method_named(self.fit.method, self.privacy.unit)
            method.recipe(1, self.privacy.subsample)
            estimator_for(method, self.fit.estimator)

    @property
    def work_dir(self) -> Path:
        """Private directory of the run."""
        return self._work_dir or beside_release(self.out)

    @property
    def accumulation(self) -> AccumulateRequest:
        """Request of the stage that sums."""
        given = self.genotypes
        store = given if isinstance(given, Location) else self.work_dir / GENOTYPES
        return _request_of_stage(AccumulateRequest, self, genotypes=store)

    @property
    def finalization(self) -> FinalizeRequest:
        """Request of the stage that publishes."""
        privacy = self.privacy
        return _request_of_stage(
            FinalizeRequest,
            self,
            epsilon=privacy.epsilon,
            delta=privacy.delta,
            non_private=privacy.non_private,
        )


PublishingRequest = FinalizeRequest | ReleaseRequest
RunRequest = AccumulateRequest | PublishingRequest


def _request_of_stage(kind: type[_Stage], whole: ReleaseRequest, **own: Any) -> _Stage:
    """Return the request of a stage: its `own` fields, and the others of the whole release."""
    names = (attribute.name for attribute in fields(kind))
    return kind(**{name: own[name] if name in own else getattr(whole, name) for name in names})


def _check_has_budget(given: Privacy | FinalizeRequest) -> None:
    if given.budget is None and not given.non_private:
        raise UsageError(
            "a private release needs --epsilon and --delta",
            remedy="Give both, or --non-private for a validation run that protects nobody",
        )


def _check_that_nobody_counts_tasks(profile: Profile) -> None:
    """Refuse a shared scheduler where the number of people is private: it shows that of tasks."""
    if isinstance(profile, ThreadsProfile | LocalProfile):
        return
    if isinstance(profile, JobQueueProfile) and profile.tls is not False:
        return
    raise UsageError(
        "the number of people is private, and a shared scheduler shows the number of tasks",
        where="--scheduler or --cluster",
        remedy="Use local workers or a job queue with TLS, or --adjacency replace-one",
    )
