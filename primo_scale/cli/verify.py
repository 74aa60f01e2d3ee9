"""Check a release directory: files, signature, numbers, and the guarantee they amount to."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from primo_scale.cli.command_line import (
    CONTEXT,
    DIRECTORY,
    FILE_PATH,
    ContractCommand,
    debug_option,
    explain_errors,
)
from primo_scale.errors import UsageError


@click.command(cls=ContractCommand, context_settings=CONTEXT)
@click.argument("directory", metavar="DIR", type=DIRECTORY)
@click.option(
    "--public-key",
    metavar="HEX",
    help="The custodian's public key, learned elsewhere: the release must be signed with it.",
)
@click.option(
    "--ledger",
    type=FILE_PATH,
    help="For the custodian: the ledger must have paid for this very release.",
)
@debug_option
@explain_errors
def main(directory: Path, public_key: str | None, ledger: Path | None) -> None:
    """Check the release in DIR and recompute its guarantee from release.json.

    Exit code 0: everything holds; 1: something does not; 3: DIR holds no release.
    """
    from primo_scale.publication.verify import is_private, verify_release
    from primo_scale.publication.wording import NOT_PRIVATE

    findings = verify_release(directory, public_key=_checked(public_key))
    if ledger is not None:
        from primo_scale.publication.check_ledger import ledger_findings

        findings += ledger_findings(directory, ledger)
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        mark = "ok     " if finding.ok else "PROBLEM"
        click.echo(f"{mark}  {finding.check:<{width}}  {_printable(finding.detail)}")
    problems = sum(not finding.ok for finding in findings)
    if problems:
        click.echo(f"NOT VERIFIED: {problems} of {len(findings)} checks failed")
        sys.exit(1)
    if is_private(directory):
        click.echo("verified: the files are intact and the guarantee follows from the numbers")
    else:
        click.echo(f"intact, but {NOT_PRIVATE}: this release promises nothing to anybody")


def _printable(detail: str) -> str:
    """Return a detail with control characters and undecodable names of files escaped."""
    escaped = (c if c.isprintable() else ascii(c)[1:-1] for c in detail)
    return "".join(escaped)


def _checked(public_key: str | None) -> str | None:
    """Refuse what is no key at all, rather than say that the release is signed with another."""
    if public_key is None or re.fullmatch("[0-9a-fA-F]{64}", public_key.strip()):
        return public_key
    raise UsageError(
        "is no Ed25519 public key",
        where="--public-key",
        value=public_key,
        limit="64 hexadecimal digits",
        remedy="The custodian sees it with python -m pipelines.ledger show",
    )


if __name__ == "__main__":
    main()
