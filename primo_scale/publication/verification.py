"""Verdict on a release: each check of `primo_scale.publication.verify`, and whether it holds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from primo_scale.errors import UsageError
from primo_scale.publication.recompute import Finding
from primo_scale.publication.verify import is_private, verify_release


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

    @property
    def ok(self) -> bool:
        """Whether every check holds."""
        return not self.problems

    @property
    def problems(self) -> tuple[Finding, ...]:
        """Checks that do not hold."""
        return tuple(finding for finding in self.findings if not finding.ok)


def verify(
    directory: str | Path, *, public_key: str | None = None, ledger: str | Path | None = None
) -> Verification:
    """Check a release, and recompute its guarantee from release.json.

    It needs nothing but the release: no genotypes, no ledger and no cluster. Of third-party
    packages it imports numpy, scipy, jsonschema, cryptography and jinja2.

    Parameters
    ----------
    directory
        Release directory.
    public_key
        Custodian's public key, 64 hexadecimal digits learned elsewhere: the release must be signed
        with it. None accepts the key that the release names.
    ledger
        Custodian's ledger, which must have paid for this release; None leaves that check out.

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
    findings = verify_release(Path(directory), public_key=public_key)
    if ledger is not None:
        from primo_scale.publication.check_ledger import ledger_findings

        findings += ledger_findings(Path(directory), Path(ledger))
    return Verification(tuple(findings), is_private(Path(directory)))
