"""Shares of the privacy budget: what each measurement of a release takes, and why."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shares:
    """Division of the mu^2 of a release among what is measured. Costs in mu^2 add up.

    Source: docs/maths/noise.md, Theorem 2.
    """

    # Of the release, for the Gram matrices by which phenotypes are adjusted. Their sums over all
    # people are large compared with any noise.
    adjustment: float = 0.02
    # Of the rest, for the first of two rounds (docs/maths/rounds.md).
    first_round: float = 0.5
    # Of the statistics, for the counts of observed phenotypes where it is private which are
    # missing, and for a Y'Y that is not free beside X'Y: both are large compared with any noise.
    counts: float = 0.01
    outcome_gram: float = 0.02
    # Of the measures of people held out, for counts of people by their score, which only choose the
    # range of the scores.
    hold_out_counts: float = 0.1


SHARES = Shares()
"""Division of every release. That of the smallest eigenvalue of X'X is a method's own."""
