"""JSON schemas of release.json and party.json, generated from the dataclasses of the statements.

``make schema`` writes release.schema.json and party.schema.json. A schema is shipped as a file,
because other tools read it and because a verifier needs no more than a JSON schema library.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from primo_scale.publication.document import PARTY, RELEASE
from primo_scale.publication.file_names import (
    COLUMNS_FILE,
    LOG_FILE,
    README_FILE,
    REPORT_FILE,
    VALUES_FILE,
)
from primo_scale.publication.party_statement import PartyStatement
from primo_scale.publication.schema_types import AtLeastOne, Digest, Distinct, Natural, Text, one_of
from primo_scale.publication.signed_document import ALGORITHM
from primo_scale.publication.statement import Statement
from primo_scale.publication.weights_files import WEIGHTS_FILES
from primo_scale.publication.wording import NOT_PRIVATE

_PUBLISHED = "guarantee", "mechanism", "ledger", "signature"
_NAME_IN_DIRECTORY = r"[A-Za-z0-9_][A-Za-z0-9._-]*"
_FILE_NAMES = [
    re.escape(README_FILE),
    *(
        re.escape(name) + (_NAME_IN_DIRECTORY + re.escape(file.suffix) if file.suffix else "")
        for name, file in WEIGHTS_FILES.items()
    ),
    re.escape(REPORT_FILE),
    re.escape(LOG_FILE),
]
_CONDITIONS = {
    "if": {"properties": {"private": {"const": True}}},
    "then": {
        "properties": {
            **{name: {"type": "object"} for name in _PUBLISHED},
            "public_by_assumption": {"minItems": 1},
            "unprotected": {"maxItems": 0},
            "stamp": {"pattern": "differentially private"},
        }
    },
    "else": {
        "properties": {
            **{name: {"type": "null"} for name in _PUBLISHED},
            "public_by_assumption": {"maxItems": 0},
            "unprotected": {"minItems": 1},
            "stamp": {"pattern": f"^{NOT_PRIVATE}"},
        }
    },
}


@dataclass(frozen=True)
class Scoring:
    """Chromosomes of the weights, and the treatment of men on chromosome X."""

    chromosomes: Annotated[tuple[Text, ...], AtLeastOne, Distinct]
    males_on_x: Literal["0/2"] | None
    xchr_model: Literal[2] | None


@dataclass(frozen=True)
class PublishedFile:
    """Name, digest and size of a file of the release."""

    name: Annotated[str, Meta(pattern=f"^({'|'.join(_FILE_NAMES)})$")]
    sha256: Digest
    bytes: Natural


@dataclass(frozen=True)
class Signature:
    """The custodian's signature of release.json."""

    algorithm: Annotated[str, Meta(extra_json_schema={"const": ALGORITHM})]
    public_key: Digest
    value: Annotated[str, Meta(pattern="^[0-9a-f]{128}$")]


@dataclass(frozen=True)
class _Envelope:
    """Members of release.json beside the statement."""

    schema_version: Annotated[int, Meta(extra_json_schema={"const": RELEASE.version})]
    stamp: Text
    scoring: Scoring
    files: Annotated[tuple[PublishedFile, ...], Meta(min_length=5)]
    signature: Signature | None


@dataclass(frozen=True)
class PartyFile(PublishedFile):
    """Name, digest and size of a file of a party's release."""

    name: Annotated[str, one_of((README_FILE, COLUMNS_FILE, VALUES_FILE))]


@dataclass(frozen=True)
class _PartyEnvelope:
    """Members of party.json beside the statement."""

    schema_version: Annotated[int, Meta(extra_json_schema={"const": PARTY.version})]
    stamp: Text
    private: Annotated[bool, Meta(extra_json_schema={"const": True})]
    files: Annotated[tuple[PartyFile, ...], Meta(min_length=3, max_length=3)]
    signature: Signature


def release_schema() -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of release.json."""
    about = "Statement, scoring, files and signature of a release."
    title = "Statement of a primo_scale release (release.json)"
    return _joined_schema((_Envelope, Statement), title, about, _CONDITIONS)


def party_schema() -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of party.json."""
    about = "Statement, files and signature of the release of one party."
    title = "Statement of a party's release (party.json)"
    return _joined_schema((_PartyEnvelope, PartyStatement), title, about, {})


def _joined_schema(
    parts: tuple[type, type], title: str, about: str, conditions: dict[str, Any]
) -> dict[str, Any]:
    """Return the schema of an object with the members of two dataclasses."""
    _, types = msgspec.json.schema_components(parts, ref_template="#/$defs/{name}")
    for schema in types.values():
        schema["additionalProperties"] = False
        schema["description"] = schema["description"].splitlines()[0]
    outer, inner = (types.pop(part.__name__) for part in parts)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **inner,
        "title": title,
        "description": about,
        "properties": outer["properties"] | inner["properties"],
        "required": outer["required"] + inner["required"],
        **conditions,
        "$defs": types,
    }


def schema_text(schema: dict[str, Any]) -> str:
    """Return the contents of a schema's file, with one line for each member of a type."""
    return re.sub(r"\n {4,}|\n {3}(?=[]}])", "", json.dumps(schema, indent=1)) + "\n"


if __name__ == "__main__":
    for kind, schema in ((RELEASE, release_schema()), (PARTY, party_schema())):
        kind.schema_path.write_text(schema_text(schema), encoding="utf-8")
