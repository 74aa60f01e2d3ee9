"""``python -m pipelines.audit``: try to break the privacy of mechanisms, on invented people."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from primo_scale.cli.command_line import CONTEXT, ContractCommand, debug_option, explain_errors
from primo_scale.cli.option_types import Number

if TYPE_CHECKING:
    from primo_scale.audit.mechanism_audit import Audit, PairAudit
    from primo_scale.methods.catalogue import Method
    from primo_scale.privacy.mechanism import Mechanism, Promise, Recipe

_ALL = "all"
_COLUMNS = "{:<8} {:<12} {:<7} {:>7} {:>11} {:>8} {:>9}  {:<22}  {}"
_HEADER = _COLUMNS.format(
    "privacy",
    "adjacency",
    "X'X",
    "claim",
    "attainable",
    "shown",
    "Gaussian",
    "verdict",
    "methods",
)


@dataclass(frozen=True)
class AuditChoices:
    """What to audit.

    Attributes
    ----------
    method, privacy, adjacency
        A name of each, or ``all``.
    epsilon, delta
        What every mechanism is calibrated to.
    """

    method: str
    privacy: str
    adjacency: str
    epsilon: float
    delta: float


@dataclass(frozen=True)
class Subject:
    """A mechanism to audit.

    Attributes
    ----------
    methods
        Names of the methods that release it.
    mechanism
        Mechanism calibrated to the invented people's bounds.
    """

    methods: tuple[str, ...]
    mechanism: Mechanism


@click.command(cls=ContractCommand, context_settings=CONTEXT)
@click.option(
    "--method",
    default=_ALL,
    show_default=True,
    metavar="all|NAME",
    help="Whose mechanism; docs/methods.md has the table.",
)
@click.option(
    "--privacy",
    type=click.Choice(["full", "label", "feature", _ALL]),
    default="full",
    show_default=True,
    help="What is protected.",
)
@click.option(
    "--adjacency",
    type=click.Choice(["replace-one", "add-remove", _ALL]),
    default="replace-one",
    show_default=True,
    help="Against which neighbours.",
)
@click.option("--epsilon", type=float, required=True, help="The claim; 1 to 3 is audited best.")
@click.option("--delta", type=float, required=True, help="The claim's delta, 1e-30 to 1e-3.")
@click.option(
    "--runs",
    type=click.IntRange(min=1000),
    default=10_000,
    show_default=True,
    help="Releases drawn over each cohort of each pair of neighbours.",
)
@click.option(
    "--confidence",
    type=Number(0, 1, min_open=True, max_open=True),
    default=0.99,
    show_default=True,
    help="That no sound mechanism is accused, in all lines together.",
)
@debug_option
@explain_errors
def main(
    method: str,
    privacy: str,
    adjacency: str,
    epsilon: float,
    delta: float,
    runs: int,
    confidence: float,
) -> None:
    """Bound the epsilon of every mechanism from below, by drawing its noise and looking.

    The noise is drawn with the code of a release, over two invented neighbouring cohorts that
    are as far apart as the proofs allow; how well they are told apart is evidence against the
    claim. It reads no data and spends no budget. docs/audit.md says what it can show.

    Exit code 0: no evidence against any claim; 1: some.
    """
    choices = AuditChoices(method, privacy, adjacency, epsilon, delta)
    subjects = list(_subjects(choices))
    click.echo(
        f"delta {delta:g}, {runs:,} releases over each of two neighbouring cohorts a pair, "
        f"confidence {confidence:g} for all lines together"
    )
    click.echo("invented people only: no data is read, no budget is spent")
    click.echo(_HEADER)
    failed = 0
    for subject in subjects:
        failed += not _report(subject, runs, (1 - confidence) / len(subjects))
    if failed:
        click.echo(f"AUDIT FAILED: {failed} of {len(subjects)} mechanisms")
        sys.exit(1)
    click.echo(f"no evidence against any of {len(subjects)} claims")


def _report(subject: Subject, runs: int, false_alarm: float) -> bool:
    """Audit, print the line, and say whether the claim stands."""
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
        click.echo(_pair_line(pair))
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


def _pair_line(pair: PairAudit) -> str:
    stated = "" if pair.stated_mu is None else f"mu {pair.stated_mu:.3f} stated, "
    return f"    {pair.name}: {stated}at least {pair.shown.mu:.3f} shown"


def _epsilon(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _subjects(choices: AuditChoices) -> Iterator[Subject]:
    """Every mechanism that was asked for, methods that share one together."""
    from primo_scale.audit.worst_pairs import SPLIT, audit_bounds
    from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
    from primo_scale.privacy.mechanism import Promise
    from primo_scale.privacy.scales import calibrate

    for unit in PrivacyUnit:
        for adjacency in Adjacency:
            if choices.privacy not in (unit, _ALL) or choices.adjacency not in (adjacency, _ALL):
                continue
            promise = Promise(choices.epsilon, choices.delta, unit, adjacency)
            for by_block in (False, True):
                bounds = audit_bounds(by_block=by_block)
                for recipe, methods in _recipes(choices, promise, by_block=by_block).items():
                    mechanism = calibrate(bounds, promise, recipe, split=SPLIT)
                    yield Subject(tuple(methods), mechanism)


def _recipes(choices: AuditChoices, promise: Promise, *, by_block: bool) -> dict[Recipe, list[str]]:
    """What the methods measure under a promise, and which measure the same."""
    from primo_scale.audit.worst_pairs import N_PHENOTYPES, SUBSAMPLE
    from primo_scale.gaussian.sensitivity import PrivacyUnit

    recipes: dict[Recipe, list[str]] = {}
    if by_block and promise.privacy is PrivacyUnit.LABEL:
        return recipes  # X'X is public: blocks change nothing
    for method in _methods(choices, promise):
        if by_block and method.subsamples:
            continue  # rows of a subsample are not clipped in blocks
        recipe = method.recipe(N_PHENOTYPES, SUBSAMPLE if method.subsamples else None)
        recipes.setdefault(recipe, []).append(method.name)
    return recipes


def _methods(choices: AuditChoices, promise: Promise) -> list[Method]:
    """The methods that were asked for and can keep a promise.

    A single one that cannot is an error, here or when it is calibrated, unless every kind of
    privacy was asked for.
    """
    from primo_scale.gaussian.sensitivity import Adjacency
    from primo_scale.methods.catalogue import METHODS, method_named

    if choices.method == _ALL:
        fitting = [m for m in METHODS.values() if promise.privacy in m.privacy]
        replaced = promise.adjacency is Adjacency.REPLACE_ONE
        return [m for m in fitting if replaced or not m.subsamples]
    if choices.privacy != _ALL or choices.method not in METHODS:
        return [method_named(choices.method, promise.privacy)]
    method = METHODS[choices.method]
    return [method] if promise.privacy in method.privacy else []


if __name__ == "__main__":
    main()
