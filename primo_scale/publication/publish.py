"""Publication of a release: its directory appears complete and verified, or not at all."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from primo_scale.ledger.ledger import PaymentStep, announce_step
from primo_scale.publication.check_weights import UNREADABLE
from primo_scale.publication.document import (
    PARTY,
    RELEASE,
    Document,
    DocumentKind,
    check_schema,
    serialise,
)
from primo_scale.publication.file_names import (
    COLUMNS_FILE,
    LOG_FILE,
    README_FILE,
    RELEASE_FILE,
    REPORT_FILE,
    VALUES_FILE,
)
from primo_scale.publication.finding import refuse_problems
from primo_scale.publication.party_readme import columns_table, party_unit, render_party_readme
from primo_scale.publication.party_statement import PartyStatement
from primo_scale.publication.pictures import draw_pictures
from primo_scale.publication.readme import render_readme
from primo_scale.publication.recompute_profile import is_about
from primo_scale.publication.releasable import check_releasable
from primo_scale.publication.release_log import render_log
from primo_scale.publication.report import render_report
from primo_scale.publication.signed_document import Signer, read_document, signature_of
from primo_scale.publication.statement import Statement, statement_document
from primo_scale.publication.verify import verify_release
from primo_scale.publication.verify_party import verify_party
from primo_scale.publication.weights import ScoringWeights, scoring_of
from primo_scale.publication.weights_files import weights_files_of
from primo_scale.publication.wording import stamp_of
from primo_scale.storage.files import directory_published_at_end, sha256_of_file

_FILE_MODE = 0o644
_DIRECTORY_MODE = 0o755
# Members that may differ in a repeated run: the date, the balance, and what is made at the end.
_PASSING = ("created", "ledger", "files", "signature")
# Members that are equal up to rounding, because the number of threads may differ.
_COMPUTED = ("estimation", "accuracy", "hold_out")


def publish_release(
    directory: Path, weights: ScoringWeights, statement: Statement, *, signer: Signer | None
) -> None:
    """Write, verify and publish a release atomically.

    The signer is None for a release that is NOT PRIVATE.
    """
    if (signer is not None) != statement.private:
        raise ValueError("a release is signed if and only if it is private")
    check_releasable(weights)
    document = statement_document(statement)
    document["scoring"] = scoring_of(weights.variants.chromosome)
    with directory_published_at_end(directory) as staging:
        files = weights_files_of(document)
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda name: files[name].write(staging / name, weights, document), files))
        key = None if signer is None else signer.public_key
        try:
            pictures = draw_pictures(staging, document)
        except UNREADABLE:  # the verification below names the weights that the statement lacks
            pictures = {}
        report = render_report(document, public_key=key, pictures=pictures)
        (staging / REPORT_FILE).write_bytes(report.encode())
        (staging / LOG_FILE).write_bytes(render_log(document).encode())
        (staging / README_FILE).write_bytes(render_readme(document).encode())
        _sign_and_verify(staging, document, RELEASE, signer)
    announce_step(PaymentStep.RELEASE_PUBLISHED)


def publish_party_release(
    directory: Path, values: Path, statement: PartyStatement, signer: Signer
) -> None:
    """Write, verify and publish a party's release of the file `values` atomically."""
    document = _party_document(statement)
    with directory_published_at_end(directory) as staging:
        shutil.copyfile(values, staging / VALUES_FILE)
        (staging / COLUMNS_FILE).write_text(columns_table(document), encoding="utf-8")
        (staging / README_FILE).write_text(render_party_readme(document), encoding="utf-8")
        _sign_and_verify(staging, document, PARTY, signer)
    announce_step(PaymentStep.RELEASE_PUBLISHED)


def _sign_and_verify(
    staging: Path, document: Document, kind: DocumentKind, signer: Signer | None
) -> None:
    """Write the signed document of a directory, and refuse one that fails its verification."""
    document["files"] = file_entries(staging)
    document["signature"] = None if signer is None else signature_of(document, signer)
    check_schema(document, kind)
    (staging / kind.name).write_bytes(serialise(document))
    refuse_problems(
        verify_party(staging) if kind is PARTY else verify_release(staging),
        "the release does not pass its own verification",
        where="release",
        remedy="Nothing was published. Please report this error",
    )
    if document["private"]:  # only the owner may read weights without noise
        open_to_readers(staging)
    announce_step(PaymentStep.RELEASE_STAGED)


def _party_document(statement: PartyStatement) -> Document:
    """Return the contents of party.json without `files` and `signature`."""
    fields = json.loads(json.dumps(asdict(statement), allow_nan=False))
    document = {"schema_version": PARTY.version, "stamp": "", "private": True, **fields}
    document["guarantee"]["unit"] = party_unit(document)
    return {**document, "stamp": stamp_of(document)}


def is_same_release(directory: Path, statement: Statement) -> bool:
    """Return whether a release has this statement, except for rounding, date and balance."""
    if not (directory / RELEASE_FILE).is_file():
        return False
    found, wanted = read_document(directory)[0], statement_document(statement)
    if found is None:
        return False
    for document in (found, wanted):
        if document["guarantee"] is not None:
            del document["guarantee"]["accountant"]  # it has the versions of programs
    return all(
        is_about(found.get(name), wanted[name])
        if name in _COMPUTED
        else found.get(name) == wanted[name]
        for name in wanted
        if name not in _PASSING
    )


def file_entries(directory: Path) -> list[Document]:
    """Return name, SHA-256 and size of every file below a directory."""
    paths = sorted(path for path in directory.rglob("*") if path.is_file())
    return [
        {
            "name": path.relative_to(directory).as_posix(),
            "sha256": sha256_of_file(path),
            "bytes": path.stat().st_size,
        }
        for path in paths
    ]


def open_to_readers(directory: Path) -> None:
    """Let every user read a directory and its files."""
    directory.chmod(_DIRECTORY_MODE)
    for path in directory.rglob("*"):
        path.chmod(_DIRECTORY_MODE if path.is_dir() else _FILE_MODE)
