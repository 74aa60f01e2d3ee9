"""Form, schema and digest of release.json."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from primo_scale.errors import InputError
from primo_scale.publication.file_names import PARTY_FILE, RELEASE_FILE
from primo_scale.storage.files import sha256_of_json

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator, ValidationError


@dataclass(frozen=True)
class DocumentKind:
    """Kind of signed document."""

    name: str  # file name
    version: int  # of its schema

    @property
    def schema_path(self) -> Path:
        """JSON schema of the document."""
        return Path(__file__).with_name(self.name.replace(".json", ".schema.json"))


RELEASE = DocumentKind(RELEASE_FILE, 4)
PARTY = DocumentKind(PARTY_FILE, 1)

# The digest is written into files that `files` lists, so it cannot cover these members.
_NOT_STATED = ("files", "signature")
_MOST_PROBLEMS, _LONGEST_PROBLEM = 20, 300

Document = dict[str, Any]


def statement_digest(document: Document) -> str:
    """Return the SHA-256 of a document without `files` and `signature`.

    release.log and report.html contain this digest, and `files` contains their digests, so that a
    change of any value is detected. All values are public, so that the digest needs no key.
    """
    return sha256_of_json({k: value for k, value in document.items() if k not in _NOT_STATED})


def people_in_words(document: Document) -> str:
    """Return the number of people in words, or the nominal number if it is private."""
    cohort = document["cohort"]
    if cohort["n_samples"] is None:
        return f"a private number of people (planned for {cohort['nominal_n']})"
    hold_out = document.get("hold_out")
    if hold_out is None:
        return f"{cohort['n_samples']} people"
    return f"{cohort['n_samples'] - hold_out['people']} people, with {hold_out['people']} held out"


def serialise(document: Document) -> bytes:
    """Return the bytes of release.json, which has one canonical form."""
    return (json.dumps(document, indent=2, allow_nan=False) + "\n").encode()


def schema_problems(document: object, kind: DocumentKind = RELEASE) -> list[str]:
    """Return the violations of the schema of a document."""
    from jsonschema.exceptions import best_match

    version = document.get("schema_version") if isinstance(document, dict) else None
    if isinstance(version, int) and version != kind.version:
        return [f"schema version {version}: this program reads version {kind.version}"]
    # A crafted document can have millions of errors with messages as long as the document.
    errors = islice(_validator(kind).iter_errors(document), _MOST_PROBLEMS)
    # For a member that may be null, the cause is in the other alternative, deeper in the document.
    causes = (best_match([error]) or error for error in errors)
    return sorted(f"{cause.json_path}: {cause.message}"[:_LONGEST_PROBLEM] for cause in causes)


def check_schema(document: Document, kind: DocumentKind = RELEASE) -> None:
    """Raise an InputError with the first violation of the schema, if there is one."""
    problems = schema_problems(document, kind)
    if problems:
        raise InputError("violates its schema", where=kind.name, value=problems[0])


@cache
def _validator(kind: DocumentKind) -> Draft202012Validator:
    from jsonschema import Draft202012Validator, validators

    # JSON Schema accepts 240.0 as an integer, but Python does not.
    types = Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    )
    strict = validators.extend(  # type: ignore[no-untyped-call]
        Draft202012Validator, {"pattern": _pattern_errors}, type_checker=types
    )
    schema = json.loads(kind.schema_path.read_text(encoding="utf-8"))
    validator: Draft202012Validator = strict(schema)
    return validator


def _pattern_errors(
    _: object, pattern: str, value: object, __: object
) -> Iterator[ValidationError]:
    """Yield an error if a text does not match, where ``$`` is its end, as in ECMA-262."""
    from jsonschema import ValidationError

    if isinstance(value, str) and not re.search(pattern.replace("$", r"\Z"), value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")
