"""Verification of a release directory without any other data.

The files are complete and consistent, release.json is signed, and the guarantee follows from the
numbers in it (`primo_scale.publication.recompute`). README.txt, report.html and release.log are
rendered again from release.json, the report also from the weights, and compared byte by byte. Files
with the weights have a check each (`primo_scale.publication.weights_files`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from primo_scale.errors import InputError, UsageError, errors_explained
from primo_scale.methods.catalogue import METHODS, REASONS
from primo_scale.methods.estimators import ESTIMATORS
from primo_scale.privacy.planning import PRIOR_HERITABILITY
from primo_scale.publication.bounded_text import bounded_bytes
from primo_scale.publication.check_weights import UNREADABLE, listed_in
from primo_scale.publication.document import PARTY, RELEASE, Document, people_in_words
from primo_scale.publication.file_names import LOG_FILE, README_FILE, RELEASE_FILE, REPORT_FILE
from primo_scale.publication.finding import Finding, finding_of, some_of
from primo_scale.publication.pictures import draw_pictures
from primo_scale.publication.readme import render_readme
from primo_scale.publication.recompute import guarantee_findings
from primo_scale.publication.recompute_method import WITHOUT_PENALTIES, estimation_problems
from primo_scale.publication.release_log import render_log
from primo_scale.publication.report import render_report
from primo_scale.publication.signed_document import (
    check_words,
    directory_findings,
    kind_of,
    read_document,
    verdict,
)
from primo_scale.publication.verify_party import verify_party
from primo_scale.publication.weights_files import WEIGHTS_FILES, Check, weights_files_of
from primo_scale.publication.wording import effective_size_in_words, unit_in_words
from primo_scale.storage.locations import usable_path
from primo_scale.version import __version__

_NUMBER = re.compile(r"[0-9]{1,19}(\.[0-9]{1,9})?(e-[0-9]{1,3})?")


@dataclass(frozen=True)
class Verification:
    """Verdict on a release.

    Attributes
    ----------
    findings : tuple of Finding
        Each check, whether it holds, and what was found.
    private : bool
        Whether the release claims to be differentially private.
    """

    findings: tuple[Finding, ...]
    private: bool

    def __repr__(self) -> str:
        checks, failed = len(self.findings), [finding.check for finding in self.problems]
        return f"Verification(ok={self.ok}, private={self.private}, {checks=}, {failed=})"

    @property
    def ok(self) -> bool:
        """Whether every check holds."""
        return not self.problems

    @property
    def problems(self) -> tuple[Finding, ...]:
        """Checks that do not hold."""
        return tuple(finding for finding in self.findings if not finding.ok)


@errors_explained()
def verify(
    directory: str | Path, *, public_key: str | None = None, ledger: str | Path | None = None
) -> Verification:
    """Check a release, or a party's release, and recompute its guarantee from its numbers.

    It needs nothing but the release: no genotypes, no ledger and no cluster. Of third-party
    packages it imports numpy, scipy, jsonschema, cryptography and jinja2.

    Parameters
    ----------
    directory
        Release directory.
    public_key
        Custodian's public key, 64 hexadecimal digits learned elsewhere: the release must be signed
        with it. None accepts the key that the release names, but only for a release of this
        version: without a trusted signature nothing vouches for texts that cannot be compared.
    ledger
        Custodian's ledger, which must have paid for this release; None leaves that check out.

    Returns
    -------
    Verification
        Result of each check. `ok` tells whether all hold; one that does not raises no error.

    Raises
    ------
    InputError
        The directory holds no release, or the ledger is malformed.
    UsageError
        The public key is malformed.
    """
    if public_key is not None and not re.fullmatch("[0-9a-fA-F]{64}", public_key.strip()):
        raise UsageError(
            "is no Ed25519 public key",
            where="--public-key",
            value=public_key,
            limit="64 hexadecimal digits",
            remedy="The custodian sees it with primo-scale ledger show",
        )
    directory = usable_path(directory, "directory")
    ledger = None if ledger is None else usable_path(ledger, "ledger")
    kind = kind_of(directory)
    check = verify_party if kind is PARTY else verify_release
    findings = check(directory, public_key=public_key)
    if ledger is not None:
        from primo_scale.publication.check_ledger import ledger_findings

        findings += ledger_findings(directory, ledger)
    document, _ = read_document(directory, kind)
    return Verification(tuple(findings), bool(document and document["private"]))


def verify_release(directory: Path, *, public_key: str | None = None) -> list[Finding]:
    """Return the results of all checks of a whole release, which may be damaged or forged.

    `public_key` is that of the custodian, in hexadecimal; None accepts a signature by any key. A
    check is omitted if it depends on an earlier one that failed.
    """
    path = directory / RELEASE_FILE
    if not path.is_file():
        raise InputError(
            "holds no release", where=directory, remedy="Give the directory of a release.json"
        )
    document, findings = directory_findings(directory, RELEASE, public_key, _check_contents)
    return findings if document is None else findings + document_findings(document)


def document_findings(document: Document) -> list[Finding]:
    """Check a release.json, valid under its schema, for consistency."""
    promise = document["guarantee"]
    unit = promise and unit_in_words(promise["privacy"], promise["adjacency"])
    checks: dict[str, Callable[[], list[Finding]]] = {
        "stamp": lambda: [check_words(document, unit)],
        "sizes": lambda: [_check_sizes(document)],
        "estimation": lambda: [_check_estimation(document)],
    }
    if document["private"]:
        checks["guarantee"] = lambda: guarantee_findings(document)
    return [finding for name, check in checks.items() for finding in verdict(name, check)]


def _count_problems(document: Document) -> list[str]:
    """Return what is wrong with the lengths of lists and the files in release.json."""
    cohort, public = document["cohort"], document["public_inputs"]
    counts = {
        "phenotypes with bounds": (len(public["phenotypes"]), cohort["n_phenotypes"]),
        "covariates with bounds": (len(public["covariates"]), cohort["n_covariates"]),
        "variants in LD blocks": (sum(cohort["block_sizes"]), cohort["n_variants"]),
        "attenuations": (len(document["estimation"]["attenuation"]), cohort["n_phenotypes"]),
    }
    stated = public.get("panel_populations")
    shares = document["estimation"].get("between_populations", ())
    scores = cohort["n_phenotypes"] * bool(stated and shares)  # some panels tell nothing
    counts["shares between populations"] = (len(shares), scores)
    components = (public.get("pc_loadings") or {"n_components": 0})["n_components"]
    for population in stated["populations"] if stated else ():
        counts[f"means of {population['name']}"] = (len(population["centroid"]), components)
    files = weights_files_of(document)
    folders = {name for name in WEIGHTS_FILES if name.endswith("/")}
    for name in sorted(folders):
        expected = cohort["n_phenotypes"] if name in files else 0
        found = len(listed_in(document, name.rstrip("/")))
        if name in files and files[name].is_optional and not document["private"]:
            expected = min(found, expected)  # phenotypes without variance have none
        counts[f"files in {name}"] = (found, expected)
    problems = [
        f"{found} {what}, not {expected}"
        for what, (found, expected) in counts.items()
        if found != expected
    ]
    names = {entry["name"] for entry in document["files"]}
    needed = {README_FILE, REPORT_FILE, LOG_FILE, *files} - folders  # counted above
    return problems + [f"{name} is not listed" for name in sorted(needed - names)]


def _check_sizes(document: Document) -> Finding:
    """Check that sizes, lists of names and files in release.json agree."""
    cohort, public = document["cohort"], document["public_inputs"]
    problems = _count_problems(document)
    copies = document["mechanism"]["gram_copies"] if document["mechanism"] else 1
    estimation, solved = document["estimation"], len(cohort["block_sizes"])
    needed = 0 if estimation["estimator"] in WITHOUT_PENALTIES else solved * copies
    if len(estimation["penalties"]) != needed:
        problems.append(f"{len(estimation['penalties'])} penalties of the estimator, not {needed}")
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
    return finding_of(
        "sizes",
        problems,
        f"{people_in_words(document)}, {cohort['n_variants']} variants, "
        f"{cohort['n_phenotypes']} phenotypes, {cohort['n_covariates']} covariates",
    )


def _check_estimation(document: Document) -> Finding:
    problems = estimation_problems(document)
    estimator = document["estimation"]["estimator"]
    return finding_of("estimation", problems, f"{estimator} with its parameters")


def _check_contents(directory: Path, document: Document, trusted: bool) -> list[Finding]:
    """Check the other files, whose digests are in release.json.

    A release of this version has the texts that this version renders. Texts of another version are
    accepted unread if the signature is by the key that the caller expects (`trusted`), since it
    covers their digests. Otherwise whoever made the release could name another version, and write
    anything into the texts.
    """
    problems = contents_problems(directory, document)
    texts = _text_problems(directory, document, weights_are_good=not problems)
    author, note = document["software"]["version"], []
    if texts and author != __version__:
        not_compared = f"of version {author}, not compared with those of version {__version__}"
        if trusted:
            covered = f"{not_compared}; the signature covers them"
            note = [replace(finding_of("texts", [], covered), note=True)]
        else:
            remedy = f"give the custodian's public key, or verify with version {author}"
            texts = [f"{some_of(texts)} ({remedy})"]
    compared = "" if note else "README, report and log agree with release.json; "
    detail = f"{compared}centres and pgs/ agree with the weights"
    return [finding_of("contents", problems + ([] if note else texts), detail), *note]


def contents_problems(directory: Path, document: Document) -> list[str]:
    """Return the contradictions between the files with the weights and release.json."""
    problems: list[str] = []
    files = weights_files_of(document)
    for name, file in sorted(files.items(), key=lambda item: item[1].needs_others):
        if not (file.needs_others and problems):
            problems += _problems(name, file.check, directory, document)
    return problems


def _text_problems(directory: Path, document: Document, *, weights_are_good: bool) -> list[str]:
    """Return the differences between the texts and what this version renders from release.json."""
    checks: dict[str, Check] = {
        README_FILE: partial(_rendering_problems, README_FILE, render_readme),
        LOG_FILE: partial(_rendering_problems, LOG_FILE, render_log),
        RELEASE_FILE: description_problems,
    }
    if weights_are_good:  # the report draws them
        checks[REPORT_FILE] = partial(_rendering_problems, REPORT_FILE, partial(_report, directory))
    return [
        problem
        for name, check in checks.items()
        for problem in _problems(name, check, directory, document)
    ]


def _problems(name: str, check: Check, directory: Path, document: Document) -> list[str]:
    """Return the problems of a file; those of a file in a directory begin with its name already."""
    try:
        problems = check(directory, document)
        return [found if found.startswith(name) else f"{name} {found}" for found in problems]
    except UNREADABLE as error:
        return [f"{name} cannot be read: {error}"]


def _rendering_problems(
    name: str, render: Callable[[Document], str], directory: Path, document: Document
) -> list[str]:
    same = bounded_bytes(directory / name) == render(document).encode()
    return [] if same else [f"differs from what version {__version__} renders from release.json"]


def _report(directory: Path, document: Document) -> str:
    signature = document["signature"]
    return render_report(
        document,
        public_key=None if signature is None else signature["public_key"],
        pictures=draw_pictures(directory, document),
    )


def description_problems(_: Path, document: Document) -> list[str]:
    """Return the descriptions that differ from those of this version."""
    estimation, mechanism = document["estimation"], document["mechanism"]
    estimator = ESTIMATORS[estimation["estimator"]]
    on_scores = bool(estimation.get("public_scores"))
    heritability = PRIOR_HERITABILITY if document["private"] else None
    size = effective_size_in_words(heritability, on_scores=on_scores)
    pairs: dict[str, tuple[str, tuple[str, ...]]] = {
        "estimation.shrinkage": (estimation["shrinkage"], (estimator.description,)),
        "estimation.eigenvalue_floor": (estimation["eigenvalue_floor"], (estimator.floor,)),
        "accuracy.definition": (document["accuracy"]["definition"], (size,)),
    }
    if mechanism is not None:
        summary = METHODS[mechanism["method"]].summary
        pairs["mechanism.summary"] = (mechanism["summary"], (summary,))
        pairs["mechanism.reason"] = (mechanism["reason"], REASONS)
    return [
        f"has another {name} than this version writes"
        for name, (stated, known) in pairs.items()
        if _without_numbers(stated) not in map(_without_numbers, known)
    ]


def _without_numbers(text: str) -> str:
    return _NUMBER.sub("0", text)
