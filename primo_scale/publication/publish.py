"""Publication of a release: its directory appears complete and verified, or not at all."""

from __future__ import annotations

import shutil
from pathlib import Path

from primo_scale.ledger.ledger import PaymentStep, announce_step
from primo_scale.publication import texts
from primo_scale.publication.weights import ScoringWeights, check_releasable, write_files
from primo_scale.storage.files import directory_published_at_end
from primo_scale.verify import document as stated
from primo_scale.verify import files, finding, formats, party, release, theorems, words
from primo_scale.verify.document import PARTY, RELEASE, Document, PartyDocument, ReleaseDocument
from primo_scale.verify.files import Signer, file_entries, signature_of

_FILE_MODE = 0o644
_DIRECTORY_MODE = 0o755
# Members that may differ in a repeated run: the date, the balance, and what is made at the end.
_PASSING = ("created", "ledger", "chromosomes", "files", "signature")
# Members that are equal up to rounding, because the number of threads may differ.
_COMPUTED = ("estimation", "accuracy", "hold_out")


def publish_release(
    directory: Path, weights: ScoringWeights, statement: ReleaseDocument, signer: Signer | None
) -> None:
    """Write, verify and publish a release atomically.

    The signer is None for a release that is NOT PRIVATE.
    """
    if (signer is not None) != statement.private:
        raise ValueError("a release is signed if and only if it is private")
    check_releasable(weights)
    document = statement_document(statement)
    document["chromosomes"] = formats.chromosomes_of(weights.variants.chromosome)
    with directory_published_at_end(directory) as staging:
        write_files(staging, weights, document)
        report = texts.render_report(
            document, None if signer is None else signer.public_key, weights
        )
        (staging / files.REPORT_FILE).write_text(report, encoding="utf-8")
        (staging / files.README_FILE).write_text(texts.render_readme(document), encoding="utf-8")
        if document["deployment"] is not None:
            record = texts.render_deployment(document)
            (staging / files.DEPLOYMENT_FILE).write_text(record, encoding="utf-8")
        _sign_and_verify(staging, document, RELEASE, signer)
    announce_step(PaymentStep.RELEASE_PUBLISHED)


def publish_party_release(
    directory: Path, values: Path, statement: PartyDocument, signer: Signer
) -> None:
    """Write, verify and publish a party's release of the file `values` atomically."""
    document = stated.statement_members(statement)
    document["guarantee"]["unit"] = words.unit_of(document)
    document["stamp"] = words.stamp_of(document)
    with directory_published_at_end(directory) as staging:
        shutil.copyfile(values, staging / files.VALUES_FILE)
        (staging / files.COLUMNS_FILE).write_text(party.columns_table(document), encoding="utf-8")
        (staging / files.README_FILE).write_text(
            texts.render_party_readme(document), encoding="utf-8"
        )
        _sign_and_verify(staging, document, PARTY, signer)
    announce_step(PaymentStep.RELEASE_PUBLISHED)


def _sign_and_verify(
    staging: Path, document: Document, kind: stated.DocumentKind, signer: Signer | None
) -> None:
    """Write the signed document of a directory, and refuse one that fails its verification."""
    document["files"] = file_entries(staging)
    document["signature"] = None if signer is None else signature_of(document, signer)
    (staging / kind.name).write_bytes(stated.serialise(document))
    problem = "the release does not pass its own verification"
    remedy = "Nothing was published. Please report this error"
    finding.refuse_problems(
        release.release_findings(staging, kind), problem, where="release", remedy=remedy
    )
    if document["private"]:  # only the owner may read weights without noise
        open_to_readers(staging)
    announce_step(PaymentStep.RELEASE_STAGED)


def statement_document(statement: ReleaseDocument) -> Document:
    """Return the contents of release.json, of which the last three members are not filled in."""
    document = stated.statement_members(statement)
    document["stamp"] = words.stamp_of(document)
    return document


def is_same_release(directory: Path, statement: ReleaseDocument) -> bool:
    """Return whether a release has this statement, except for rounding, date and balance."""
    if not (directory / RELEASE.name).is_file():
        return False
    found, wanted = stated.read_document(directory)[0], statement_document(statement)
    if found is None:
        return False
    for document in (found, wanted):
        if document["guarantee"] is not None:
            del document["guarantee"]["versions"]
    return all(
        theorems.is_about(found.get(name), wanted[name])
        if name in _COMPUTED
        else found.get(name) == wanted[name]
        for name in wanted
        if name not in _PASSING
    )


def open_to_readers(directory: Path) -> None:
    """Let every user read a directory and its files."""
    directory.chmod(_DIRECTORY_MODE)
    for path in directory.rglob("*"):
        path.chmod(_DIRECTORY_MODE if path.is_dir() else _FILE_MODE)
