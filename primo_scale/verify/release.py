"""Whole check of a release directory: what each module of this folder finds, in order."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from primo_scale.errors import InputError, UsageError, errors_explained
from primo_scale.storage.locations import usable_path
from primo_scale.verify import document as documents
from primo_scale.verify import files, guarantee, party, tables, words
from primo_scale.verify.document import PARTY, RELEASE, Document, DocumentKind
from primo_scale.verify.finding import Finding, finding_of, verdict
from primo_scale.verify.ledger import ledger_findings


@dataclass(frozen=True)
class Verification:
    """Verdict on a release.

    Attributes
    ----------
    findings : tuple of Finding
        Each check, whether it holds, and what was found.
    private : bool
        Whether the release claims to be differentially private.
    promise : str
        The guarantee in words, as far as it was recomputed from the numbers; empty without one.
    """

    findings: tuple[Finding, ...]
    private: bool
    promise: str = ""

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
    packages it imports numpy, scipy, cryptography and msgspec. Texts for readers, such as
    README.txt and report.html, are the signer's word: only their digests are checked.

    Parameters
    ----------
    directory
        Release directory.
    public_key
        Custodian's public key, 64 hexadecimal digits learned elsewhere: the release must be signed
        with it. None accepts the key that the release names, which anybody could have made.
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
    kind = documents.kind_of(directory)
    findings = release_findings(directory, kind, public_key=public_key)
    if ledger is not None:
        findings += ledger_findings(directory, ledger)
    document, _ = documents.read_document(directory, kind)
    is_private = bool(document and document["private"])
    return Verification(tuple(findings), is_private, _promise(document) if document else "")


def release_findings(
    directory: Path, kind: DocumentKind = RELEASE, *, public_key: str | None = None
) -> list[Finding]:
    """Return the results of all checks of a release, which may be damaged or forged.

    `public_key` is that of the custodian, in hexadecimal; None accepts a signature by any key. A
    check is omitted if it depends on an earlier one that failed.
    """
    if not (directory / kind.name).is_file():
        raise InputError(
            "holds no release", where=directory, remedy=f"Give the directory of a {kind.name}"
        )
    document, schema = documents.read_document(directory, kind)
    if document is None:
        return [schema]
    listed = files.check_files(directory, document["files"], kind.name)
    findings = [schema, listed]
    findings += verdict("signature", lambda: [_check_signature(document, public_key)])
    if listed.ok:
        findings += verdict("contents", lambda: [_check_contents(directory, document, kind)])
    return findings + document_findings(document, kind)


def _check_signature(document: Document, public_key: str | None) -> Finding:
    """Check that the custodian signed a document; a release without noise has no signature."""
    if not document["private"]:
        problems = [] if public_key is None else [f"a {words.NOT_PRIVATE} release has no signature"]
        return finding_of("signature", problems, f"none: {words.NOT_PRIVATE}")
    problem = files.signature_problem(document, public_key)
    key = document["signature"]["public_key"]
    expected = "as expected" if public_key else "compare it with the custodian's key"
    return finding_of("signature", [problem] if problem else [], f"by {key}, {expected}")


def document_findings(document: Document, kind: DocumentKind = RELEASE) -> list[Finding]:
    """Check a release.json or party.json, valid under its schema, for consistency."""
    checks: dict[str, Callable[[], list[Finding]]] = {
        "stamp": lambda: [words.check_words(document)]
    }
    if kind is PARTY:
        checks["guarantee"] = lambda: party.promise_findings(document)
    else:
        checks["sizes"] = lambda: [_check_sizes(document)]
        checks["estimation"] = lambda: [guarantee.check_estimation(document)]
        if document["private"]:
            checks["guarantee"] = lambda: guarantee.guarantee_findings(document)
    return [finding for name, check in checks.items() for finding in verdict(name, check)]


def _promise(document: Document) -> str:
    """Return the guarantee in a line, by the numbers that the other checks recompute."""
    promise = document["guarantee"]
    if promise is None:
        return ""
    return (
        f"epsilon {promise['epsilon']:.6g}, delta {promise['delta']:.6g}, mu "
        f"{promise['mu']:.6g}, hiding {promise['unit']} ({promise['adjacency']})"
    )


def _check_contents(directory: Path, document: Document, kind: DocumentKind) -> Finding:
    """Check the other files, whose digests are in the document.

    Texts must have the stamp, and report.html a digest of the statement, too, so that it belongs to
    this release.json; what else they say is the signer's word.
    """
    if kind is PARTY:
        problems = party.contents_problems(directory, document)
        return finding_of("contents", problems, "columns and values agree with party.json")
    problems, stamp = tables.table_problems(directory, document), document["stamp"]
    digest = documents.statement_digest(document)
    for name, texts in {files.README_FILE: (stamp,), files.REPORT_FILE: (stamp, digest)}.items():
        try:
            content = html.unescape(files.bounded_bytes(directory / name).decode())
        except files.UNREADABLE as error:
            problems.append(f"{name} cannot be read: {error}")
            continue
        if not all(text in content for text in texts):
            problems.append(f"{name} lacks the stamp, or belongs to another release.json")
    return finding_of("contents", problems, "weights, centres, pgs/ and sumstats/ agree")


def _check_sizes(document: Document) -> Finding:
    """Check that sizes, lists of names and files in release.json agree."""
    cohort, public = document["cohort"], document["public_inputs"]
    estimation, populations = document["estimation"], public["panel_populations"]
    copies = document["mechanism"]["gram_copies"] if document["mechanism"] else 1
    shares = estimation["between_populations"]  # which some panels do not tell
    scores = cohort["n_phenotypes"] * bool(populations and shares)
    is_ridge = estimation["estimator"] not in guarantee.WITHOUT_PENALTIES
    counts = {
        "phenotypes with bounds": (len(public["phenotypes"]), cohort["n_phenotypes"]),
        "covariates with bounds": (len(public["covariates"]), cohort["n_covariates"]),
        "variants in LD blocks": (sum(cohort["block_sizes"]), cohort["n_variants"]),
        "attenuations": (len(estimation["attenuation"]), cohort["n_phenotypes"]),
        "shares between populations": (len(shares), scores),
        "penalties of the estimator": (
            len(estimation["penalties"]), len(cohort["block_sizes"]) * copies * is_ridge
        ),
    }  # fmt: skip
    components = (public["pc_loadings"] or {"n_components": 0})["n_components"]
    for population in populations["populations"] if populations else ():
        counts[f"means of {population['name']}"] = (len(population["centroid"]), components)
    problems = [
        f"{found} {what}, not {expected}"
        for what, (found, expected) in counts.items()
        if found != expected
    ]
    problems += _list_problems(document)
    if bool(document["unprotected"]) == document["private"]:
        problems.append(f"unprotected are {document['unprotected']}")
    informed = public["reference_frequencies"] != "uninformative"
    if public["genotype_unit"] != (16 if informed else 1):
        problems.append(
            f"genotype_unit {public['genotype_unit']} contradicts reference_frequencies"
        )
    people = cohort["n_samples"] or cohort["nominal_n"]
    if people is None:
        problems.append("neither a number of people nor a nominal number is stated")
    elif document["accuracy"]["effective_sample_size"] > people:
        problems.append("the effective sample size is above the sample size")
    if (document["accuracy"]["r_squared"] or 0) > (document["accuracy"]["without_noise"] or 0):
        problems.append("the expected R^2 is above that without noise")
    return finding_of(
        "sizes",
        problems,
        f"{words.people_in_words(document)}, {cohort['n_variants']} variants, "
        f"{cohort['n_phenotypes']} phenotypes, {cohort['n_covariates']} covariates",
    )


def _list_problems(document: Document) -> list[str]:
    """Return which files should be listed, or should not."""
    names = {entry["name"] for entry in document["files"]}
    needed = {files.README_FILE, files.REPORT_FILE}
    needed |= {files.WEIGHTS_FILE, files.COVARIATES_FILE, files.CENTRE_FILE}
    needed |= {files.DEPLOYMENT_FILE} if document["deployment"] else set()
    needed |= {files.STACK_FILE} if document["public_inputs"]["score_features"] else set()
    pgs, *sumstats = tables.phenotype_files(document).values()
    needed, optional = needed.union(pgs), {name for group in sumstats for name in group}
    if document["private"]:  # phenotypes without variance have no file
        needed |= optional
    problems = [f"{name} is not listed" for name in sorted(needed - names)]
    unknown = sorted(names - needed - optional)
    return problems + [f"{name} is no file of this release" for name in unknown]
