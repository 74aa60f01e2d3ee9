"""Request of a forecast: the releases, and the accuracy to reach."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from attrs import field, frozen
from attrs.converters import optional

from primo_scale.errors import UsageError
from primo_scale.gaussian.calibration import DELTA_RANGE, release_mu
from primo_scale.privacy.planning import PRIOR_HERITABILITY
from primo_scale.run.request_parts import check_number, expanded_paths, regular_file
from primo_scale.run.typed_fields import typed


def _numbers(value: float | Iterable[float]) -> tuple[float, ...]:
    return (float(value),) if isinstance(value, int | float) else tuple(map(float, value))


def _sizes(value: int | Iterable[int]) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else tuple(value)


@dataclass(frozen=True)
class Target:
    """Accuracy to reach: an R^2, or a share of the R^2 of the same people without noise."""

    value: float
    of_best: bool

    def r2(self, without_noise: float) -> float:
        """Return the R^2 to reach, from that without noise."""
        return self.value * without_noise if self.of_best else self.value


def read_target(value: str | float | Target) -> Target:
    """Return the target of a text such as ``0.15``, or ``80%`` for a share, between 0 and 1."""
    if isinstance(value, Target):
        return value
    text = str(value)
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        number = 0.0
    target = Target(number / 100, of_best=True) if text.endswith("%") else Target(number, False)
    if not 0 < target.value < 1:
        limit = "an R^2 between 0 and 1, or a percentage of the R^2 without noise"
        raise UsageError("is no accuracy", where="--target", value=text, limit=limit)
    return target


@frozen(kw_only=True, field_transformer=typed)
class ForecastRequest:
    """Releases to forecast: every combination of people, phenotypes, epsilons and variants.

    Attributes
    ----------
    ld_panel : tuple of Path
        Prefixes of PLINK 1 filesets of public people, one or several, with the
        variants of the release.
    ref_freq : Path
        Public allele frequencies of their population.
    people, phenotypes : tuple of int
        Numbers of people of the cohort, and of phenotypes of the release.
    epsilon : tuple of float
        Values of epsilon.
    delta : float or None
        Delta of every release; None stands for ``1 / people^2``.
    extract : Path or None
        List of the variants that take part; None stands for all of the panel.
    variants : tuple of int
        Numbers of variants; empty stands for the variants of the panel. A larger number repeats the
        panel, and spreads the heritability over all copies. A smaller number takes the best
        variants by `extract_by_prior`.
    extract_by_prior : Path or None
        Public score that ranks the variants, as for `GenotypeFiles`. The share of the heritability
        that the best ones explain is assumed to be the squared correlation of their part of the
        score with the whole score, by the LD of the panel.
    prior_r2 : float or None
        R^2 of a public score, in people like the cohort, that the weights build on.
    prior_people : int
        Number of people of the study that gave this score.
    target : Target or None
        Accuracy to reach by another epsilon, more people or fewer phenotypes: ``0.15`` for an R^2,
        ``"80%"`` for a share of the R^2 without noise.
    ld_components : bool
        Whether LD components take the place of the variants.

    Raises
    ------
    UsageError
        A number is out of range, or `extract_by_prior` lacks `variants`.
    """

    ld_panel: tuple[Path, ...] = field(converter=expanded_paths)
    ref_freq: Path = field(converter=regular_file)
    people: tuple[int, ...] = field(converter=_sizes)
    phenotypes: tuple[int, ...] = field(converter=_sizes, default=(1, 10, 100))
    epsilon: tuple[float, ...] = field(converter=_numbers, default=(1.0, 5.0))
    delta: float | None = field(default=None, converter=optional(float))
    extract: Path | None = field(default=None, converter=optional(regular_file))
    variants: tuple[int, ...] = field(converter=_sizes, default=())
    extract_by_prior: Path | None = field(default=None, converter=optional(regular_file))
    prior_r2: float | None = field(default=None, converter=optional(float))
    prior_people: int = 100_000
    target: Target | None = field(default=None, converter=optional(read_target))
    ld_components: bool = True

    def __attrs_post_init__(self) -> None:
        for name in ("people", "phenotypes", "variants"):
            sizes = getattr(self, name)
            if (not sizes and name != "variants") or min(sizes, default=1) < 1:
                raise UsageError("is not a positive number", where=f"--{name}", value=sizes)
        check_number("--prior-people", self.prior_people, least=1)
        if self.prior_r2 is not None and not 0 < self.prior_r2 < PRIOR_HERITABILITY:
            limit = f"above 0, and below the heritability of {PRIOR_HERITABILITY:g} that is assumed"
            raise UsageError(
                "is out of range", where="--prior-r2", value=self.prior_r2, limit=limit
            )
        if self.extract_by_prior is not None and not self.variants:
            remedy = "Give --variants, the numbers of variants to choose"
            raise UsageError("lacks --variants", where="--extract-by-prior", remedy=remedy)
        fewest = min(self.people)
        if self.delta is None and self.delta_of(fewest) > DELTA_RANGE[1]:
            raise UsageError(
                "are too few for a delta of 1/people^2",
                where="--people",
                value=fewest,
                limit=f"at least {math.ceil(DELTA_RANGE[1] ** -0.5)}",
                remedy="Give more people, or --delta",
            )
        for people, epsilon in itertools.product(self.people, self.epsilon):
            release_mu(epsilon, self.delta_of(people))

    def delta_of(self, people: int) -> float:
        """Return the delta of a release of so many people."""
        return float(people) ** -2 if self.delta is None else self.delta
