"""Publish a release: a directory that appears complete and verified, or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from primo_scale.errors import InputError
from primo_scale.release.pgs import write_pgs_files
from primo_scale.release.report import render_report
from primo_scale.release.statement import (
    Document,
    Statement,
    check_schema,
    serialise,
    statement_digest,
    statement_document,
)
from primo_scale.release.verify import (
    CENTRE_FILE,
    LOG_FILE,
    PGS_DIRECTORY,
    RELEASE_FILE,
    REPORT_FILE,
    WEIGHTS_FILE,
    verify_release,
)
from primo_scale.release.weights import (
    ScoringWeights,
    check_releasable,
    write_centre_afreq,
    write_weights,
)
from primo_scale.storage.files import directory_published_at_end, sha256_of_file

_FILE_MODE = 0o644
_DIRECTORY_MODE = 0o755


def publish_release(
    directory: Path, weights: ScoringWeights, statement: Statement, options: Mapping[str, str]
) -> Path:
    """Write, verify and publish a release in one step that cannot be half done.

    Parameters
    ----------
    directory
        Must not exist. Everything is written beside it and renamed into place at the end.
    weights
        What is released; private weights are the output of a mechanism, never of raw statistics.
    statement
        What is promised about them.
    options
        Options in effect, name to value, for the log and the report. They are published: the
        caller leaves out paths and whatever else is the custodian's own.

    Returns
    -------
    Path
        `directory`.

    Raises
    ------
    InputError
        The weights cannot be scored (`check_releasable`), `directory` exists or cannot be
        written, or the release fails its own verification.
    ResourceError
        The disk is full.
    """
    check_releasable(weights)
    document = statement_document(statement)
    digest = statement_digest(document)
    with directory_published_at_end(directory) as staging:
        write_weights(staging / WEIGHTS_FILE, weights, private=statement.private)
        write_centre_afreq(staging / CENTRE_FILE, weights, stamp=statement.stamp)
        write_pgs_files(
            staging / PGS_DIRECTORY,
            weights,
            genome_build=statement.public_inputs.genome_build,
            stamp=statement.stamp,
        )
        report = render_report(document, digest=digest, options=options)
        (staging / REPORT_FILE).write_text(report, encoding="utf-8")
        log = _log(document, digest=digest, options=options)
        (staging / LOG_FILE).write_text(log, encoding="utf-8")
        document["files"] = _file_entries(staging)
        check_schema(document)
        (staging / RELEASE_FILE).write_bytes(serialise(document))
        _refuse_unverified(staging)
        if statement.private:  # weights without noise stay with their owner
            _open_to_readers(staging)
    return directory


def is_same_release(directory: Path, statement: Statement) -> bool:
    """Whether the release at `directory` states what `statement` does.

    The date and the ledger's balance may differ: they go on while a release stays what it is.
    """
    path = directory / RELEASE_FILE
    if not path.is_file():
        return False
    found, wanted = json.loads(path.read_bytes()), statement_document(statement)
    passing = ("created", "ledger", "files")
    return all(found.get(name) == wanted[name] for name in wanted if name not in passing)


def _log(document: Document, *, digest: str, options: Mapping[str, str]) -> str:
    """What happened, in public terms: no time of day, no path, nothing counted in the cohort."""
    cohort, software = document["cohort"], document["software"]
    mechanism = document["mechanism"]
    lines = [f"{software['name']} {software['version']}, {document['created']} (UTC)"]
    lines += [document["stamp"]]
    lines += [f"option --{name} {value}" for name, value in options.items()]
    lines += [
        f"cohort: {cohort['n_samples']} people, {cohort['n_variants']} variants in "
        f"{len(cohort['block_sizes'])} LD blocks, {cohort['n_phenotypes']} phenotypes, "
        f"{cohort['n_covariates']} covariates",
    ]
    for query in mechanism["queries"] if mechanism else []:
        lines.append(f"measured: {query['statistic']}, noise sd {query['sigma']:.6g}")
    if document["ledger"]:
        ledger = document["ledger"]
        lines.append(
            f"charged: epsilon {ledger['epsilon_before']:.6g} -> {ledger['epsilon_after']:.6g} "
            f"of {ledger['epsilon_budget']:.6g} at delta {ledger['delta']:.6g}"
        )
    lines.append(f"effective sample size: {document['accuracy']['effective_sample_size']:.6g}")
    lines.append(f"statement sha256: {digest}")
    return "\n".join(lines) + "\n"


def _file_entries(directory: Path) -> list[Document]:
    paths = sorted(path for path in directory.rglob("*") if path.is_file())
    return [
        {
            "name": path.relative_to(directory).as_posix(),
            "sha256": sha256_of_file(path),
            "bytes": path.stat().st_size,
        }
        for path in paths
    ]


def _refuse_unverified(directory: Path) -> None:
    problems = [finding for finding in verify_release(directory) if not finding.ok]
    if problems:
        raise InputError(
            f"the release does not pass its own verification: {problems[0].check}",
            where="release",
            value=problems[0].detail,
            remedy="Nothing was published; please report this",
        )


def _open_to_readers(directory: Path) -> None:
    directory.chmod(_DIRECTORY_MODE)
    for path in directory.rglob("*"):
        path.chmod(_DIRECTORY_MODE if path.is_dir() else _FILE_MODE)
