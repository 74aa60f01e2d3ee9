"""Publication of a release: what may lie at ``--out``, names, the weights, the directory."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from primo_scale.errors import CHECK_PERMISSIONS, Field, InputError, UsageError
from primo_scale.humanize import examples
from primo_scale.privacy.payment import NoiseStore
from primo_scale.publication.texts import accuracies_in_words, ancestry_notes, held_out_cautions
from primo_scale.publication.weights import ScoringWeights, scoring_command
from primo_scale.run.describe_release import Payment, make_statement, states_inputs
from primo_scale.run.design import Design
from primo_scale.run.estimation import Solved
from primo_scale.run.forecast import PlannedRelease
from primo_scale.run.request import FinalizeRequest
from primo_scale.run.run_log import LOGGER, about
from primo_scale.run.work_directory import NOISE
from primo_scale.storage.files import (
    NEVER_OVERWRITTEN,
    STAGING_NAME_BYTES,
    of_other_request,
    sha256_of_file,
)
from primo_scale.verify.document import RELEASE, Document, DocumentKind, read_document
from primo_scale.verify.files import Signer
from primo_scale.verify.finding import refuse_problems
from primo_scale.verify.held_out_accuracy import corrects_weights, decisive

_CLEAR_SLOPE = 3  # standard errors below 0 from which the slope on a public score is reported

# ---- What lies at --out --------------------------------------------------------------------------


def check_out(out: Path, kind: DocumentKind = RELEASE) -> Document | None:
    """Return the document of the release at `out`, or None where nothing is.

    A path where no release can be published is refused before any work is done.
    """
    document = _read_release(out, kind)
    if document is None and (out.exists() or out.is_symlink()):
        raise of_other_request(out, remedy=NEVER_OVERWRITTEN)
    if document is None:
        refuse_unwritable(out, appended=STAGING_NAME_BYTES)
    return document


def refuse_unwritable(path: Path, *, appended: int = 0) -> None:
    """Refuse a file or directory that this user can neither write nor create.

    The program writes files beside it whose names have `appended` more bytes.
    """
    _refuse_long_name(path, appended)
    if path.exists():
        if not os.access(path, os.W_OK):
            raise InputError(
                "cannot be written: permission denied", where=path, remedy=CHECK_PERMISSIONS
            )
        return
    ancestor = next(parent for parent in path.absolute().parents if parent.exists())
    if not ancestor.is_dir() or not os.access(ancestor, os.W_OK):
        raise InputError(
            "cannot be created", where=path, remedy="Choose a directory you may write to"
        )


def _refuse_long_name(path: Path, appended: int) -> None:
    """Refuse a name that its file system cannot hold with `appended` more bytes."""
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    longest, size = os.pathconf(folder, "PC_NAME_MAX"), len(os.fsencode(path.name))
    if 0 < longest < size + appended:  # a file system without a limit has -1
        beside = f" for the files beside it, which have {appended} more" if appended else ""
        raise InputError(
            f"the name is too long{beside}",
            where=path,
            value=f"{size} bytes",
            limit=f"{longest - appended} bytes",
            remedy="Choose a shorter name",
        )


def refuse_other_release(
    request: FinalizeRequest, design: Design, build: str, *, private: bool
) -> None:
    """Refuse a directory that holds another release than the requested one, as far as it shows."""
    document = _read_release(request.out)
    if document is None:
        return
    charge = charge_of(request.out)
    given = design.guarantee
    if given is None or not private:
        same = charge is None and states_inputs(document, design, build)
    else:
        stated = document["guarantee"] or {}
        budget = (stated.get("epsilon"), stated.get("delta"))
        # The noise of its charge in the work directory ties a private release to the request.
        stored_noise = NoiseStore(request.work_dir / NOISE).charges()
        same = charge in stored_noise and budget == (given.epsilon, given.delta)
        same &= _is_calibrated(document, request)
    if not same or bool(document.get("summary_statistics")) != request.sumstats:
        raise of_other_request(request.out, remedy=NEVER_OVERWRITTEN)


def check_private_places(out: Path, places: Mapping[Field, Path]) -> None:
    """Refuse private paths, given by field, inside the release directory `out`."""
    for field, path in places.items():
        if path.resolve().is_relative_to(out.resolve()):
            raise UsageError(
                "is private, and lies in what gets published",
                where=field,
                value=path,
                remedy="Choose another place",
            )


def charge_of(out: Path) -> str | None:
    """Return the charge that paid for the statistics of a published release, or None."""
    ledger = (_read_release(out) or {}).get("ledger")
    return str(ledger["charge"]) if ledger else None


def refuse_damaged(out: Path, public_key: str | None = None) -> None:
    """Refuse a published release that does not verify, with the first failed check.

    `public_key` is that of the ledger that paid. None trusts the key that the release names, for a
    caller who knows its release.json, and for a release that is NOT PRIVATE and has none.
    """
    from primo_scale.verify.release import verify  # loads SciPy

    refuse_problems(
        verify(out, public_key=public_key or _named_key(out)).findings,
        "the release there is damaged",
        where=out,
        remedy="Restore it from a copy, or move it away and run the same command again",
    )


def _named_key(out: Path) -> str | None:
    return ((_read_release(out) or {}).get("signature") or {}).get("public_key")


def _read_release(out: Path, kind: DocumentKind = RELEASE) -> Document | None:
    """Return the document of a release, or None if that is no release or a damaged one."""
    return read_document(out, kind)[0] if (out / kind.name).is_file() else None


def _is_calibrated(document: Document, request: FinalizeRequest) -> bool:
    """Return whether the weights of a release are calibrated as the request asks."""
    measured = (document.get("hold_out") or {"phenotypes": []})["phenotypes"]
    asked = request.calibrate and any(
        corrects_weights(each["slope"], each["slope_lower"], each["slope_upper"])
        for each in map(decisive, measured)
    )
    return asked == any(each["calibration"] != 1 for each in measured)


# ---- Publication ---------------------------------------------------------------------------------


def publish(
    planned: PlannedRelease,
    solved: Solved,
    *,
    payment: Payment | None = None,
    signer: Signer | None = None,
) -> str:
    """Publish, or find the release published; return the SHA-256 of release.json."""
    from primo_scale.publication.publish import is_same_release, publish_release  # loads SciPy

    request = planned.request
    statement = make_statement(planned.design, solved, payment, planned.build)
    if request.out.exists():
        if not is_same_release(request.out, statement):
            raise of_other_request(request.out, remedy=NEVER_OVERWRITTEN)
        refuse_damaged(request.out, None if signer is None else signer.public_key)
        LOGGER.info("%s: this release is published already", request.out)
    else:
        publish_release(request.out, solved.weights, statement, signer=signer)
    document = json.loads((request.out / RELEASE.name).read_bytes())
    LOGGER.info("%s", document["stamp"])
    _warn_of_zeros(solved.weights)
    _warn_of_reversed_scores(document["estimation"]["public_scores"])
    if document["hold_out"] is None:
        size = document["accuracy"]["effective_sample_size"]
        LOGGER.info("forecast from public numbers: effective sample size %.6g", size)
    for line in accuracies_in_words(document):
        LOGGER.info("held out: %s", line)
    for caution in held_out_cautions(document):
        LOGGER.warning("held out: %s", caution)
    for caution in ancestry_notes(document):
        LOGGER.warning("%s", caution)
    LOGGER.info("to score people: %s", " ".join(scoring_command(document, request.out)))
    out = request.out.absolute()
    LOGGER.debug("published %s", out, extra=about("published", {"out": out}))
    return sha256_of_file(request.out / RELEASE.name)


def _warn_of_reversed_scores(scores: Sequence[Mapping[str, Any]]) -> None:
    """Warn of public scores whose stated slopes are clearly negative."""
    for score in scores:
        for each in score["slopes"]:
            if each["slope"] < -_CLEAR_SLOPE * each["standard_error"]:
                LOGGER.warning(
                    "--prior-weights %s: its slope for %s is negative, %.3g with standard error "
                    "%.2g: check its effect alleles and the direction of the phenotype; the "
                    "weights build on the reversed score",
                    score["file"], each["phenotype"], each["slope"], each["standard_error"],
                )  # fmt: skip


def _warn_of_zeros(weights: ScoringWeights) -> None:
    """Warn of phenotypes whose weights are all 0, as the release shows."""
    columns = zip(weights.phenotypes, weights.per_allele.T, strict=True)
    names = [name for name, column in columns if not column.any()]
    if names:
        LOGGER.warning(
            "all weights are 0 of %d of %d phenotypes, which the noise hides or which do not vary: "
            "%s", len(names), len(weights.phenotypes), examples(names),
        )  # fmt: skip
