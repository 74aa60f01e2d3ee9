"""release.json itself: its form, its schema and its digest."""

from __future__ import annotations

import dataclasses
import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from primo_scale.errors import InputError
from primo_scale.release.statement import Statement
from primo_scale.storage.files import sha256_of_json

SCHEMA_VERSION = 3
_SCHEMA_PATH = Path(__file__).with_name("release.schema.json")
# Neither can hold its own digest, nor be in a file that `files` lists.
_NOT_STATED = ("files", "signature")

Document = dict[str, Any]


def statement_document(statement: Statement) -> Document:
    """The statement as the contents of release.json, without `files` and `signature`."""
    fields = json.loads(json.dumps(dataclasses.asdict(statement), allow_nan=False))
    return {"schema_version": SCHEMA_VERSION, "stamp": statement.stamp, **fields}


def statement_digest(document: Document) -> str:
    """SHA-256 of the statement in `document`, `files` and `signature` left out.

    It stands in release.log and report.html, whose own digests stand in `files`: so a change of
    any value is noticed. All of it is public, so the digest needs no key.
    """
    return sha256_of_json({k: value for k, value in document.items() if k not in _NOT_STATED})


def people_in_words(document: Document) -> str:
    """How many people the cohort has, as far as that is public."""
    cohort = document["cohort"]
    if cohort["n_samples"] is None:
        return f"a private number of people (planned for {cohort['nominal_n']})"
    return f"{cohort['n_samples']} people"


def serialise(document: Document) -> bytes:
    """The one form in which a document is written to release.json."""
    return (json.dumps(document, indent=2, allow_nan=False) + "\n").encode()


def schema_problems(document: object) -> list[str]:
    """Where `document` departs from release.schema.json; empty when it does not."""
    version = document.get("schema_version") if isinstance(document, dict) else None
    if isinstance(version, int) and version != SCHEMA_VERSION:
        return [f"schema version {version}: this program reads version {SCHEMA_VERSION}"]
    return [
        f"{error.json_path}: {error.message}"
        for error in sorted(_validator().iter_errors(document), key=lambda error: error.json_path)
    ]


def check_schema(document: Document) -> None:
    """Refuse a document that is not a valid release.json.

    Raises
    ------
    InputError
        Naming the first place that is wrong.
    """
    problems = schema_problems(document)
    if problems:
        raise InputError("does not follow its schema", where="release.json", value=problems[0])


@cache
def _validator() -> Draft202012Validator:
    return Draft202012Validator(json.loads(_SCHEMA_PATH.read_text(encoding="utf-8")))
