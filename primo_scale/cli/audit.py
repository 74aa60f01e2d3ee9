"""``primo-scale audit``: attack the privacy of mechanisms, with invented people."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from primo_scale.cli.command_line import ContractCommand
from primo_scale.cli.option_types import Number
from primo_scale.cli.options import neighbour_options

if TYPE_CHECKING:
    from primo_scale.audit.mechanism_audit import Audit
    from primo_scale.audit.subjects import Subject

_ALL = "all"
_COLUMNS = "{:<8} {:<12} {:<7} {:>7} {:>11} {:>8} {:>9}  {:<22}  {}"
_HEADINGS = "privacy adjacency X'X claim attainable shown Gaussian verdict methods"


@click.command(cls=ContractCommand)
@click.option(
    "--method",
    default=_ALL,
    metavar="all|NAME",
    help="Method whose mechanisms are audited; docs/methods.md has the table.",
)
@neighbour_options(_ALL)
@click.option("--epsilon", type=float, required=True, help="Claimed epsilon; 1 to 3 is best.")
@click.option("--delta", type=float, required=True, help="Claimed delta, 1e-30 to 1e-3.")
@click.option(
    "--runs",
    type=click.IntRange(min=1000),
    default=10_000,
    help="Number of releases drawn over each cohort of each pair of neighbours.",
)
@click.option(
    "--confidence",
    type=Number(0, 1, min_open=True, max_open=True),
    default=0.99,
    help="Probability that no sound mechanism is accused, over all lines together.",
)
def main(
    method: str,
    unit: str,
    adjacency: str,
    epsilon: float,
    delta: float,
    runs: int,
    confidence: float,
) -> None:
    """Bound the epsilon of every mechanism from below, by attacks on draws of its noise.

    The noise is drawn with the code of a release, over two invented neighbouring cohorts that
    are as far apart as the proofs allow. An attack that distinguishes them too well is evidence
    against the claim. No data is read, and no budget is spent. docs/audit.md has the details.

    Exit code 0: no evidence against any claim; 1: evidence against a claim.
    """
    from primo_scale.audit.subjects import audit_subjects

    subjects = list(audit_subjects(method, unit, adjacency, epsilon=epsilon, delta=delta))
    click.echo(
        f"delta {delta:g}, {runs:,} releases over each of two neighbouring cohorts a pair, "
        f"confidence {confidence:g} for all lines together"
    )
    click.echo("invented people only: no data is read, no budget is spent")
    click.echo("not audited: people held out, adjustments, releases of parties (docs/audit.md)")
    click.echo(_COLUMNS.format(*_HEADINGS.split()))
    failed = 0
    for subject in subjects:
        failed += not _report(subject, runs, (1 - confidence) / len(subjects))
    if failed:
        click.echo(f"AUDIT FAILED: {failed} of {len(subjects)} mechanisms")
        sys.exit(1)
    click.echo(f"no evidence against any of {len(subjects)} claims")


def _report(subject: Subject, runs: int, false_alarm: float) -> bool:
    """Audit a mechanism, print its line, and return whether the claim stands."""
    from primo_scale.audit.audited_release import pooled_noise
    from primo_scale.audit.mechanism_audit import Effort, Verdict, audit
    from primo_scale.audit.worst_pairs import worst_pairs

    mechanism = subject.mechanism
    effort = Effort(runs, false_alarm, pooled_noise())
    found = audit(mechanism, worst_pairs(mechanism), effort)
    click.echo(_line(subject, found))
    if found.verdict is Verdict.WITHIN:
        return True
    for pair in found.pairs:
        stated = "" if pair.stated_mu is None else f"mu {pair.stated_mu:.3f} stated, "
        click.echo(f"    {pair.name}: {stated}at least {pair.shown.mu:.3f} shown")
    return False


def _line(subject: Subject, found: Audit) -> str:
    mechanism = subject.mechanism
    promise, bounds = mechanism.promise, mechanism.bounds
    return _COLUMNS.format(
        promise.privacy,
        promise.adjacency,
        "dense" if bounds.block_norms is None else "blocks",
        f"{promise.epsilon:g}",
        _epsilon(found.attainable),
        _epsilon(found.epsilon),
        _epsilon(found.gaussian_epsilon),
        found.verdict,
        ", ".join(subject.methods),
    ).rstrip()


def _epsilon(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
