"""Verification of a release directory without any other data.

The files are complete and consistent, release.json is signed, and the guarantee follows from the
numbers in it (`primo_scale.publication.recompute`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from primo_scale.errors import InputError
from primo_scale.publication.bounded_text import bounded_bytes
from primo_scale.publication.check_weights import pgs_names
from primo_scale.publication.contents import contents_problems
from primo_scale.publication.document import (
    Document,
    people_in_words,
    schema_problems,
    serialise,
)
from primo_scale.publication.file_names import (
    LOG_FILE,
    PGS_DIRECTORY,
    README_FILE,
    RELEASE_FILE,
    REPORT_FILE,
)
from primo_scale.publication.recompute import Finding, guarantee_findings
from primo_scale.publication.recompute_method import estimation_problems
from primo_scale.publication.signature import signature_problem
from primo_scale.publication.weights_files import WEIGHTS_FILES
from primo_scale.publication.wording import (
    NOT_PRIVATE,
    accountant_in_words,
    public_by_assumption,
    stamp_of,
    unit_in_words,
)
from primo_scale.storage.files import sha256_of_file

_SHOWN = 3
_LONGEST_DETAIL = 1000
_MOST_CONTAINERS = 1 << 20
_UNCOMPUTABLE = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


def verify_release(directory: Path, *, public_key: str | None = None) -> list[Finding]:
    """Check a whole release.

    Parameters
    ----------
    directory : Path
        Release directory, which may be damaged or forged.
    public_key : str or None
        Public key of the custodian, in hexadecimal; None accepts a signature by any key.

    Returns
    -------
    list of Finding
        Results in the order of the checks. The release is valid if all are `ok`. A check is omitted
        if it depends on an earlier one that failed.

    Raises
    ------
    InputError
        `directory` contains no release.json.
    """
    path = directory / RELEASE_FILE
    if not path.is_file():
        raise InputError(
            "holds no release", where=directory, remedy="Give the directory of a release.json"
        )
    document, schema = read_document(directory)
    if document is None:
        return [schema]
    files = _check_files(directory, document)
    findings = [schema, files]
    findings += _verdict("signature", lambda: [_check_signature(document, public_key)])
    if files.ok:
        findings += _verdict("contents", lambda: [_check_contents(directory, document)])
    return findings + document_findings(document)


def document_findings(document: Document) -> list[Finding]:
    """Check a release.json, valid under its schema, for consistency."""
    checks: dict[str, Callable[[], list[Finding]]] = {
        "stamp": lambda: [_check_words(document)],
        "sizes": lambda: [_check_names(document)],
        "estimation": lambda: [_check_estimation(document)],
    }
    if document["private"]:
        checks["guarantee"] = lambda: guarantee_findings(document)
    return [finding for name, check in checks.items() for finding in _verdict(name, check)]


def _verdict(name: str, check: Callable[[], list[Finding]]) -> list[Finding]:
    """Return the findings of a check, or a problem if a crafted number makes it fail."""
    try:
        return check()
    except _UNCOMPUTABLE as error:
        return [Finding(False, name, f"cannot be checked: {error!r}"[:_LONGEST_DETAIL])]


def is_private(directory: Path) -> bool:
    """Return whether a release that passed `verify_release` has a guarantee."""
    document, _ = read_document(directory)
    return document is not None and bool(document["private"])


def read_document(directory: Path) -> tuple[Document | None, Finding]:
    """Return the contents of release.json, or None if invalid, and the result of that check."""
    document = None
    try:
        content = bounded_bytes(directory / RELEASE_FILE)
    except ValueError as error:
        return None, Finding(False, RELEASE_FILE, f"is {error}")
    try:
        if content.count(b"{") + content.count(b"[") > _MOST_CONTAINERS:
            problem = f"holds more than {_MOST_CONTAINERS} objects and lists"
        else:
            document = json.loads(content, parse_constant=_refuse_constant)
            problem = _form_problem(document, content)
    except ValueError as error:
        problem = f"is not JSON: {error}"
    except RecursionError:
        problem = "is nested too deeply to be read"
    if problem:
        return None, Finding(False, RELEASE_FILE, problem[:_LONGEST_DETAIL])
    return document, Finding(True, RELEASE_FILE, "follows its schema")


def _form_problem(document: Any, content: bytes) -> str:
    """Return the violations of the schema or the canonical form, or an empty text."""
    problems = schema_problems(document)
    if problems:
        return f"violates its schema: {_some(problems)}"
    try:
        as_written = serialise(document)
    except ValueError as error:  # 1e999 is valid JSON and is parsed as infinity
        return f"holds a number that is not finite: {error}"
    return "" if as_written == content else "is not in the canonical form"


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _check_files(directory: Path, document: Document) -> Finding:
    listed = {entry["name"]: entry for entry in document["files"]}
    found = {
        path.relative_to(directory).as_posix(): path
        for path in directory.rglob("*")
        if path.is_symlink() or not path.is_dir()
    }
    found.pop(RELEASE_FILE, None)
    problems = [f"{name} is missing" for name in sorted(listed.keys() - found.keys())]
    problems += [f"{name} does not belong here" for name in sorted(found.keys() - listed.keys())]
    if len(listed) != len(document["files"]):
        problems.append("a file is listed twice")
    for name in sorted(listed.keys() & found.keys()):
        path = found[name]
        if path.is_symlink() or not path.is_file():
            problems.append(f"{name} is not a plain file")
        elif path.stat().st_size != listed[name]["bytes"]:
            problems.append(f"{name} has another size than stated")
        elif sha256_of_file(path) != listed[name]["sha256"]:
            problems.append(f"{name} was changed: its SHA-256 is not the stated one")
    return _finding(
        "files", problems, f"{len(listed)} files with the stated SHA-256, and no others"
    )


def _check_signature(document: Document, public_key: str | None) -> Finding:
    if not document["private"]:
        problems = [] if public_key is None else [f"a {NOT_PRIVATE} release has no signature"]
        return _finding("signature", problems, f"none: {NOT_PRIVATE}")
    problem = signature_problem(document, public_key)
    key = document["signature"]["public_key"]
    expected = "as expected" if public_key else "compare it with the custodian's key"
    return _finding("signature", [problem] if problem else [], f"by {key}, {expected}")


def _check_words(document: Document) -> Finding:
    """Check that the sentences agree with the numbers and names."""
    expected = stamp_of(document)
    problems = []
    if document["stamp"] != expected:
        problems.append(f"the stated stamp is {document['stamp']!r}, not {expected!r}")
    promise = document["guarantee"]
    if promise is not None:
        privacy, adjacency = promise["privacy"], promise["adjacency"]
        if promise["unit"] != unit_in_words(privacy, adjacency):
            problems.append(
                f"the stated unit {promise['unit']!r} is not that of {privacy}, {adjacency}"
            )
        if document["public_by_assumption"] != list(public_by_assumption(privacy, adjacency)):
            problems.append(f"the stated public values are not those of {privacy}, {adjacency}")
        accountant = accountant_in_words(subsampled=promise["cost"]["delta"] > 0)
        if promise["accountant"]["method"] != accountant:
            problems.append(f"the stated accountant {promise['accountant']['method']!r} is unknown")
    return _finding("stamp", problems, expected)


def _check_names(document: Document) -> Finding:
    """Check that sizes, lists of names and files in release.json agree."""
    cohort, public = document["cohort"], document["public_inputs"]
    counts = {
        "phenotypes with bounds": (len(public["phenotypes"]), cohort["n_phenotypes"]),
        "covariates with bounds": (len(public["covariates"]), cohort["n_covariates"]),
        "variants in LD blocks": (sum(cohort["block_sizes"]), cohort["n_variants"]),
        "PGS files": (len(pgs_names(document)), cohort["n_phenotypes"]),
        "attenuations": (len(document["estimation"]["attenuation"]), cohort["n_phenotypes"]),
    }
    problems = [
        f"{found} {what}, not {expected}"
        for what, (found, expected) in counts.items()
        if found != expected
    ]
    names = {entry["name"] for entry in document["files"]}
    needed = {README_FILE, REPORT_FILE, LOG_FILE, *(file.name for file in WEIGHTS_FILES)}
    needed -= {f"{PGS_DIRECTORY}/"}  # counted above
    problems += [f"{name} is not listed" for name in sorted(needed - names)]
    copies = document["mechanism"]["gram_copies"] if document["mechanism"] else 1
    penalties, solved = len(document["estimation"]["penalties"]), len(cohort["block_sizes"])
    if penalties not in (0, solved * copies):
        problems.append(f"{penalties} penalties for {solved} LD blocks with {copies} X'X each")
    informed = public["reference_frequencies"] != "uninformative"
    if informed != (public["genotype_unit"] > 1):
        problems.append(
            f"genotype_unit {public['genotype_unit']} contradicts reference_frequencies"
        )
    people = cohort["n_samples"] or cohort["nominal_n"]
    if people is None:
        problems.append("neither a number of people nor a nominal number is stated")
    elif document["accuracy"]["effective_sample_size"] > people:
        problems.append("the effective sample size is above the sample size")
    return _finding(
        "sizes",
        problems,
        f"{people_in_words(document)}, {cohort['n_variants']} variants, "
        f"{cohort['n_phenotypes']} phenotypes, {cohort['n_covariates']} covariates",
    )


def _check_estimation(document: Document) -> Finding:
    problems = estimation_problems(document)
    estimator = document["estimation"]["estimator"]
    return _finding("estimation", problems, f"{estimator} with its parameters")


def _check_contents(directory: Path, document: Document) -> Finding:
    problems = contents_problems(directory, document)
    detail = (
        "README, report and log agree with release.json; centres and pgs/ agree with the weights"
    )
    return _finding("contents", problems, detail)


def _finding(check: str, problems: list[str], detail: str) -> Finding:
    return Finding(not problems, check, (_some(problems) or detail)[:_LONGEST_DETAIL])


def _some(problems: list[str]) -> str:
    more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
    return "; ".join(problems[:_SHOWN]) + more
