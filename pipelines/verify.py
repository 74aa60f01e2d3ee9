"""Check a release directory: files, numbers, and the privacy guarantee they amount to."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pipelines.command_line import CONTEXT, DIRECTORY, ContractCommand, debug_option, explain_errors


@click.command(cls=ContractCommand, context_settings=CONTEXT)
@click.argument("directory", metavar="DIR", type=DIRECTORY)
@debug_option
@explain_errors
def main(directory: Path) -> None:
    """Check the release in DIR and recompute its guarantee from release.json.

    Exit code 0: everything holds; 1: something does not; 3: DIR holds no release.
    """
    from primo_scale.release.statement import NOT_PRIVATE
    from primo_scale.release.verify import is_private, verify_release

    findings = verify_release(directory)
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        mark = "ok     " if finding.ok else "PROBLEM"
        click.echo(f"{mark}  {finding.check:<{width}}  {finding.detail}")
    problems = sum(not finding.ok for finding in findings)
    if problems:
        click.echo(f"NOT VERIFIED: {problems} of {len(findings)} checks failed")
        sys.exit(1)
    if is_private(directory):
        click.echo("verified: the files are intact and the guarantee follows from the numbers")
    else:
        click.echo(f"intact, but {NOT_PRIVATE}: this release promises nothing to anybody")


if __name__ == "__main__":
    main()
