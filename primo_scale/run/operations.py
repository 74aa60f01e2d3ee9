"""Operations of the public interface: ingest, accumulate, finalize, release and plan.

Each takes a request and does what the command of the same name does. It installs no signal
handlers, and leaves loggers, environment variables and the umask as they were. In several threads
of one process, one begins after the other.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from primo_scale.cluster.job_queues import LocalProfile
from primo_scale.errors import InputError, UsageError
from primo_scale.genotypes.store import GenotypeStore
from primo_scale.run import fields, options, publishing, run_log
from primo_scale.run.accumulate_stage import accumulate_stage
from primo_scale.run.finalize_stage import finalize_stage
from primo_scale.run.ingest_stage import copy_stage, ingest_stage
from primo_scale.run.plan import Plan, prepare, prepare_release
from primo_scale.run.purge import is_done_and_purged, purge, warn_of_intermediates
from primo_scale.run.work_directory import GENOTYPES, SCORE_FEATURES, claim, locked
from primo_scale.storage import files, locations, stores

if TYPE_CHECKING:
    from primo_scale.publication.open_release import Release


@dataclass(frozen=True)
class Summed:
    """Exact statistics that `accumulate` leaves in a work directory. PRIVATE."""

    work_dir: Path
    sha256: str  # equal on every machine for equal inputs, options and noise of an adjustment


@fields.takes(options.IngestRequest)
def ingest(request: options.IngestRequest) -> GenotypeStore:
    """Write the genotypes of files to a packed store, or continue to write it.

    Returns
    -------
    GenotypeStore
        Finished store.

    Raises
    ------
    InputError
        A file is malformed, or `out` holds something else.
    UsageError
        There is an `ld_panel`, and no score chooses the variants.
    ResourceError
        The disk has too little space.
    """
    if not request.out.exists():
        publishing.refuse_unwritable(request.out)
    shape = request.chunk_variants or request.sources.packing.chunk_shape[0], request.chunk_samples
    with files.files_private():
        return ingest_stage(request, request.out, ld_panel=request.ld_panel, chunk_shape=shape)


@fields.takes(options.AccumulateRequest)
def accumulate(request: options.AccumulateRequest) -> Summed:
    """Sum X'X by LD blocks, X'Z and Z'Z exactly, or continue to sum them.

    Unless they are for a release that is not private, it pays for the release.

    Returns
    -------
    Summed
        Work directory, and the digest of the statistics there. PRIVATE.

    Raises
    ------
    InputError, UsageError
        Inputs that are malformed, do not belong together, or cannot be released.
    BudgetRefused
        The ledger refuses to pay for the release.
    ResourceError
        There is too little memory or disk space.
    InterruptedRun
        The run stopped; the same request continues it.
    """
    with _at_work(request):
        is_done_and_purged(request)  # refuses a purged work directory
        with run_log.run_logged(request.work_dir, "accumulate", request):
            plan = prepare(request)
            _check_reachable(request, plan)
            _, raw = accumulate_stage(plan)
    return Summed(request.work_dir, raw.sha256)


@fields.takes(options.FinalizeRequest)
def finalize(request: options.FinalizeRequest) -> Release:
    """Add noise once, solve every phenotype and publish the weights.

    Returns
    -------
    Release
        Published release, also if an earlier run published it.

    Raises
    ------
    InputError, UsageError
        The statistics do not serve the release, or its directory holds another one.
    BudgetRefused
        The ledger refuses to pay for the release.
    ResourceError
        There is too little memory or disk space.
    InterruptedRun
        The run stopped; the same request continues it.
    """
    publishing.check_out(request.out, request.work_dir, request.ledger_path)
    if not request.work_dir.is_dir():
        remedy = "Run accumulate first"
        raise InputError("no such work directory", where=request.work_dir, remedy=remedy)
    return _published(request, "finalize", lambda: finalize_stage(prepare_release(request)))


@fields.takes(options.ReleaseRequest)
def release(request: options.ReleaseRequest) -> Release:
    """Publish private polygenic-score weights from genotype files: ingest, sum and finalize.

    All inputs but the genotypes are checked, and the ledger is asked, before a genotype is read.

    Returns
    -------
    Release
        Published release, also if an earlier run published it.

    Raises
    ------
    InputError, UsageError
        Inputs that are malformed, do not belong together, or cannot be released.
    BudgetRefused
        The ledger refuses to pay for the release.
    ResourceError
        Too little memory or disk.
    InterruptedRun
        The run stopped; the same request continues it.
    """
    publishing.check_out(request.out, request.work_dir, request.ledger_path)
    return _published(request, "release", lambda: _ingest_sum_and_publish(request))


@fields.takes(options.ReleaseRequest, options.AccumulateRequest)
def plan(request: options.AccumulateRequest) -> Plan:
    """Check a request as its run does before it reads a genotype, and change nothing.

    Returns
    -------
    Plan
        Design, expected accuracy, warnings, and memory and disk that the run takes. PRIVATE.

    Raises
    ------
    InputError, UsageError, BudgetRefused, ResourceError
        `accumulate` or `release` would refuse the request.
    """
    if request.work_dir.exists():
        files.make_private_directory(request.work_dir)  # refuses one that is open to others
    else:
        files.refuse_dangling_link(request.work_dir)
        publishing.refuse_unwritable(request.work_dir, longest=255)  # nothing is written beside it
    with stores.encrypted_with(request.encryption_key), run_log.warnings_collected() as warnings:
        if isinstance(request, options.ReleaseRequest):
            publishing.check_out(request.out, request.work_dir, request.ledger_path)
            if is_done_and_purged(request, read_only=True):
                raise UsageError("this release is published, and its intermediates are deleted")
        found = prepare(request, dry_run=True)
    return replace(found, warnings=tuple(warnings))


def _ingest_sum_and_publish(request: options.ReleaseRequest) -> None:
    """Check everything, then carry out the plan in a locked work directory."""
    # The check comes first, because a mistake must not cost hours of ingest or any budget.
    plan = prepare(request)
    _check_reachable(request, plan)
    bucket, store, release = request.object_store, plan.genotypes, plan.release
    if release is None or store is None:
        raise ValueError("the plan has no release")
    if not isinstance(request.genotypes, locations.Location):
        store = ingest_stage(request.files, request.work_dir / GENOTYPES, planned=store)
    plan = replace(plan, genotypes=store)
    if release.features is not None:
        from primo_scale.run.score_features import write_features  # loads pandas

        store = write_features(release.features, store)
    if bucket is not None and isinstance(store.path, Path):
        claim(bucket, request.work_dir)
        store = copy_stage(store, bucket / (SCORE_FEATURES if release.features else GENOTYPES))
    plan = replace(plan, store=store)
    design, _ = accumulate_stage(plan)
    finalize_stage(replace(release, design=design, store=store))


def _check_reachable(request: options.AccumulateRequest, plan: Plan) -> None:
    """Refuse a cluster that cannot be used, before an ingest or a payment, if sums are missing."""
    profile = request.profile
    if plan.sums is not None and profile is not None and not isinstance(profile, LocalProfile):
        from primo_scale.cluster.workers import check_reachable  # loads Dask's cluster

        check_reachable(profile, request.work_dir.absolute() / "scratch")


def _published(
    request: options.FinalizeRequest, command: str, publish: Callable[[], None]
) -> Release:
    """Publish a release, unless it is published and purged, and open it."""
    from primo_scale.publication.open_release import open_release  # loads SciPy

    with _at_work(request):
        if not is_done_and_purged(request):
            with run_log.run_logged(request.work_dir, command, request):
                publish()
                if request.purge_intermediates:
                    purge(request)
                else:
                    warn_of_intermediates(request.work_dir)
    return open_release(request.out)


@contextmanager
def _at_work(request: options.RunRequest) -> Iterator[None]:
    """Hold the lock of the work directory, and encrypt what is written there if requested.

    A script without a guard would run in every worker process again, and pay again.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):  # as multiprocessing asks
        raise UsageError(
            "this process imports the script that started it, to become a worker",
            remedy="Make the calls of the script below `if __name__ == '__main__':`",
        )
    with stores.encrypted_with(request.encryption_key), locked(request.work_dir):
        yield
