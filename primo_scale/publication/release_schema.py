"""JSON schema of release.json, generated from the dataclasses of the statement.

``make schema`` writes release.schema.json. The schema is shipped as a file, because other tools
read it and because a verifier needs no more than a JSON schema library.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from primo_scale.publication.document import SCHEMA_PATH, SCHEMA_VERSION
from primo_scale.publication.schema_types import AtLeastOne, Digest, Distinct, Natural, Text
from primo_scale.publication.signature import ALGORITHM
from primo_scale.publication.statement import Statement
from primo_scale.publication.wording import NOT_PRIVATE

_PUBLISHED = "guarantee", "mechanism", "ledger", "signature"
_FILE_NAME = (
    r"^(README\.txt|weights\.tsv\.gz|covariates\.tsv|centre\.afreq|report\.html|release\.log"
    r"|pgs/[A-Za-z0-9_][A-Za-z0-9._-]*\.txt\.gz)$"
)
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

    name: Annotated[str, Meta(pattern=_FILE_NAME)]
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

    schema_version: Annotated[int, Meta(extra_json_schema={"const": SCHEMA_VERSION})]
    stamp: Text
    scoring: Scoring
    files: Annotated[tuple[PublishedFile, ...], Meta(min_length=5)]
    signature: Signature | None


def release_schema() -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of release.json."""
    _, types = msgspec.json.schema_components((_Envelope, Statement), ref_template="#/$defs/{name}")
    for schema in types.values():
        schema["additionalProperties"] = False
        schema["description"] = schema["description"].splitlines()[0]
    envelope, statement = types.pop(_Envelope.__name__), types.pop(Statement.__name__)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **statement,
        "title": "Statement of a primo_scale release (release.json)",
        "description": "Statement, scoring, files and signature of a release.",
        "properties": envelope["properties"] | statement["properties"],
        "required": envelope["required"] + statement["required"],
        **_CONDITIONS,
        "$defs": types,
    }


def schema_text() -> str:
    """Return the contents of release.schema.json, with one line for each member of a type."""
    return re.sub(r"\n {4,}|\n {3}(?=[]}])", "", json.dumps(release_schema(), indent=1)) + "\n"


if __name__ == "__main__":
    SCHEMA_PATH.write_text(schema_text(), encoding="utf-8")
