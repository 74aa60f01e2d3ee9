"""Publication of a party's release: its directory appears complete and verified, or not at all."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path

from primo_scale.ledger.payment_steps import PaymentStep, announce_step
from primo_scale.publication.document import PARTY, Document, check_schema, serialise
from primo_scale.publication.file_names import COLUMNS_FILE, PARTY_FILE, README_FILE, VALUES_FILE
from primo_scale.publication.party_readme import columns_table, party_unit, render_party_readme
from primo_scale.publication.party_statement import PartyStatement
from primo_scale.publication.publish import file_entries, open_to_readers, refuse_unverified
from primo_scale.publication.signature import Signer, signature_of
from primo_scale.publication.verify_party import verify_party
from primo_scale.publication.wording import stamp_of
from primo_scale.storage.files import directory_published_at_end


def party_document(statement: PartyStatement) -> Document:
    """Return the contents of party.json without `files` and `signature`."""
    fields = json.loads(json.dumps(asdict(statement), allow_nan=False))
    document = {"schema_version": PARTY.version, "stamp": "", "private": True, **fields}
    document["guarantee"]["unit"] = party_unit(document)
    return {**document, "stamp": stamp_of(document)}


def publish_party_release(
    directory: Path, values: Path, statement: PartyStatement, signer: Signer
) -> Path:
    """Write, verify and publish a party's release of the file `values` atomically.

    Raises
    ------
    InputError
        `directory` exists or cannot be written, or the release does not pass its own verification.
    ResourceError
        The disk is full.
    """
    document = party_document(statement)
    with directory_published_at_end(directory) as staging:
        shutil.copyfile(values, staging / VALUES_FILE)
        (staging / COLUMNS_FILE).write_text(columns_table(document), encoding="utf-8")
        (staging / README_FILE).write_text(render_party_readme(document), encoding="utf-8")
        document["files"] = file_entries(staging)
        document["signature"] = signature_of(document, signer)
        check_schema(document, PARTY)
        (staging / PARTY_FILE).write_bytes(serialise(document))
        refuse_unverified(verify_party(staging))
        open_to_readers(staging)
        announce_step(PaymentStep.RELEASE_STAGED)
    announce_step(PaymentStep.RELEASE_PUBLISHED)
    return directory
