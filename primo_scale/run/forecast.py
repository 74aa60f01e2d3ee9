"""Forecast of releases from a public panel alone, before a cohort is read."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd

from primo_scale.errors import InputError, UsageError
from primo_scale.genotypes.filters import Selection, select_variants
from primo_scale.genotypes.frequencies import read_reference_frequencies, refuse_few_matches
from primo_scale.genotypes.ld_panel import open_ld_panel
from primo_scale.genotypes.source import SourceFiles, open_source
from primo_scale.genotypes.tables import Index, VariantTable
from primo_scale.interruption import check
from primo_scale.outcomes.bounds import PhenotypeBounds
from primo_scale.outcomes.coding import ADJUSTED_UNIT, OutcomeCoding, code_outcomes
from primo_scale.privacy.accuracy import Trait
from primo_scale.privacy.mechanism import Recipe
from primo_scale.privacy.planning import PRIOR_HERITABILITY
from primo_scale.privacy.scales import LatticeTooSmall
from primo_scale.run.design import Budget
from primo_scale.run.design_choices import NoGenotypes, PublicPanels, make_design
from primo_scale.run.fields import takes
from primo_scale.run.other_requests import ForecastRequest, Target
from primo_scale.run.panel_choices import warn_of_other_population
from primo_scale.run.progress import count_bar
from primo_scale.run.release_forecast import forecast_release
from primo_scale.run.request import Model, Privacy
from primo_scale.run.run_log import LOGGER
from primo_scale.run.variant_importance import importance_by
from primo_scale.storage.files import directory_published_at_end

_SDS = 5.0  # bounds of the assumed phenotypes, in standard deviations from the mean
# Largest and smallest sizes that are tried to reach a target, and their precision.
_MOST_EPSILON, _LEAST_EPSILON = 50.0, 0.05
_MOST_PEOPLE, _FEWEST_PEOPLE = 1e8, 100.0
_MOST_PHENOTYPES = 10_000.0
_PRECISION = 1.01


@dataclass(frozen=True)
class ForecastRow:
    """Expected accuracy of one release for a trait of the prior heritability.

    Attributes
    ----------
    people, phenotypes, variants : int
        Sizes of the release.
    epsilon, delta : float
        Privacy parameters of the release.
    columns : int
        Number of LD components, or of variants without them.
    clip : float
        Bound on the norm of a row of standardised phenotypes, divided by the square root of their
        number.
    r2 : float
        Share of the trait's variance that scores explain in other people.
    r2_without_noise : float
        The same share for a release of the same people without bounds and noise.
    effective_people : float
        Number of people whose release without noise explains as much.
    sparse_r2 : float or None
        Share for a trait of which 1% of the variants have effects; None with public scores.
    target_epsilon, target_people, target_phenotypes : float, int, int or None
        Smallest epsilon, fewest people and most phenotypes that reach the target, to about 1%, each
        with the other sizes of the row. None without a target, or if no value tried reaches it.
    """

    people: int
    phenotypes: int
    variants: int
    epsilon: float
    delta: float
    columns: int
    clip: float
    r2: float
    r2_without_noise: float
    effective_people: float
    sparse_r2: float | None
    target_epsilon: float | None = None
    target_people: int | None = None
    target_phenotypes: int | None = None


@dataclass(frozen=True, eq=False)
class _VariantSet:
    """Variants of a release, their panels, and the share of the heritability that they explain."""

    variants: VariantTable
    panels: PublicPanels
    heritability_share: float


@takes(ForecastRequest)
def forecast(request: ForecastRequest) -> tuple[ForecastRow, ...]:
    """Forecast every release of a request, with full privacy and replace-one adjacency.

    Returns
    -------
    tuple of ForecastRow
        Row of each release: of each number of variants, with each number of people, each number of
        phenotypes and each epsilon.

    Raises
    ------
    InputError
        The panel, the frequencies or the score are malformed, or do not belong together.
    UsageError
        A privacy parameter is out of range, or nothing ranks the variants of a smaller number.
    """
    rows: list[ForecastRow] = []
    sizes = list(itertools.product(request.people, request.phenotypes, request.epsilon))
    total = len(sizes) * max(1, len(request.variants))
    with count_bar("forecast", "releases") as move:
        for chosen in _variant_sets(request):
            row_of = cache(partial(_row, request, chosen))  # the searches of several rows are equal
            for people, phenotypes, epsilon in sizes:
                check()
                move(len(rows), total)
                row = row_of(people=people, phenotypes=phenotypes, epsilon=epsilon)
                if request.target is not None:
                    row = _with_target(request.target, row_of, row)
                rows.append(row)
        move(total, total)
    return tuple(rows)


def _variant_sets(request: ForecastRequest) -> Iterator[_VariantSet]:
    """Yield the set of every number of variants in a request."""
    table = open_source(SourceFiles(request.ld_panel)).variants
    chosen, _ = select_variants(table, Selection(extract=request.extract))
    variants = table.select(chosen)
    frequencies = read_reference_frequencies(request.ref_freq, variants)
    refuse_few_matches(frequencies)
    panel = open_ld_panel(request.ld_panel, variants)
    warn_of_other_population(panel, frequencies, variants)
    whole = PublicPanels(frequencies, panel)
    importance = None
    if request.extract_by_prior is not None:
        rank = importance_by(request.extract_by_prior, request.ref_freq, request.ld_panel)
        importance = rank(variants)
        if not importance.values.any():
            raise InputError(
                "gives no variant of the panel a weight", where=request.extract_by_prior
            )
    for number in request.variants or (len(variants),):
        if number >= len(variants):
            yield _selected(whole, variants, np.arange(number) % len(variants), 1.0)
            continue
        if importance is None:
            raise UsageError(
                "does not say which variants of the panel to choose",
                where="--variants",
                value=number,
                limit=f"the {len(variants)} variants of the panel, or more",
                remedy="Give --extract-by-prior, or choose them by --extract",
            )
        yield _selected(whole, variants, *importance.best(number))


def _selected(
    whole: PublicPanels, variants: VariantTable, rows: Index, heritability_share: float
) -> _VariantSet:
    """Return the variants at `rows`; a row in a further copy is on a chromosome of its own."""
    frequencies, ld = whole.frequencies, whole.ld
    if frequencies is None or ld is None:
        raise ValueError("a forecast has panels")
    copy = np.arange(len(rows)) // len(variants)
    chromosome = np.array(
        [f"{name}/{number}" for name, number in zip(ld.chromosome[rows], copy, strict=True)],
        dtype=object,
    )
    panels = PublicPanels(
        replace(frequencies, a1_frequency=frequencies.a1_frequency[rows]),
        replace(ld, rows=ld.rows[rows], swapped=ld.swapped[rows], chromosome=chromosome),
    )
    return _VariantSet(variants.select(rows), panels, heritability_share)


def _row(
    request: ForecastRequest, chosen: _VariantSet, *, people: int, phenotypes: int, epsilon: float
) -> ForecastRow:
    budget = Budget(epsilon, request.delta_of(people))
    design = make_design(
        NoGenotypes(people, chosen.variants),
        Model(
            ref_freq=request.ref_freq,
            ld_panel=request.ld_panel,
            ld_components=request.ld_components,
        ),
        Privacy(epsilon=budget.epsilon, delta=budget.delta),
        panels=chosen.panels,
        outcomes=_standard_normal(phenotypes),
    )
    trait = Trait(
        heritability=PRIOR_HERITABILITY * chosen.heritability_share,
        public_r2=(request.prior_r2 or 0.0) * chosen.heritability_share,
        public_people=request.prior_people,
    )
    mechanism = design.mechanism(budget, Recipe())
    expected = forecast_release(design, chosen.variants, mechanism, trait)
    return ForecastRow(
        people=people,
        phenotypes=phenotypes,
        variants=len(chosen.variants),
        epsilon=budget.epsilon,
        delta=budget.delta,
        columns=design.layout.n_variants,
        clip=design.clip,
        r2=expected.r_squared,
        r2_without_noise=expected.without_noise,
        effective_people=expected.effective_sample_size,
        sparse_r2=expected.sparse,
    )


def _with_target(
    target: Target, row_of: Callable[..., ForecastRow], row: ForecastRow
) -> ForecastRow:
    """Return the row with what reaches a target."""

    def reached_at(
        *, people: int = row.people, phenotypes: int = row.phenotypes, epsilon: float = row.epsilon
    ) -> bool | None:
        try:
            found = row_of(people=people, phenotypes=phenotypes, epsilon=epsilon)
        except LatticeTooSmall:
            return None
        return found.r2 >= target.r2(found.r2_without_noise)

    least_epsilon = min(_LEAST_EPSILON, row.epsilon)
    epsilon = _last_that_reaches(lambda x: reached_at(epsilon=x), _MOST_EPSILON, least_epsilon)
    fewest = min(_FEWEST_PEOPLE, row.people)
    people = _last_that_reaches(lambda x: reached_at(people=math.ceil(x)), _MOST_PEOPLE, fewest)
    most = max(_MOST_PHENOTYPES, row.phenotypes)
    phenotypes = _last_that_reaches(lambda x: reached_at(phenotypes=math.floor(x)), 1.0, most)
    return replace(
        row,
        target_epsilon=epsilon,
        target_people=None if people is None else math.ceil(people),
        target_phenotypes=None if phenotypes is None else math.floor(phenotypes),
    )


def _last_that_reaches(
    reaches: Callable[[float], bool | None], good: float, bad: float
) -> float | None:
    """Return the value nearest to `bad` that still reaches a target, or None if `good` does not.

    `reaches` returns None for a value that no release can have; half of a `good` one is tried then.
    """
    while (enough := reaches(good)) is None and good > bad:
        good /= 2
    if not enough:
        return None
    if reaches(bad):
        return bad
    while max(good, bad) > _PRECISION * min(good, bad):
        middle = math.sqrt(good * bad)
        good, bad = (middle, bad) if reaches(middle) else (good, middle)
    return good


def _standard_normal(count: int) -> OutcomeCoding:
    """Return the coding of so many quantitative phenotypes, bounded at five sds."""
    traits = [
        PhenotypeBounds(f"T{number}", -_SDS, _SDS, 0.0, 1.0, "quantitative")
        for number in range(count)
    ]
    return code_outcomes(traits, (), largest_unit=ADJUSTED_UNIT)


def write_forecast(directory: Path, rows: tuple[ForecastRow, ...]) -> None:
    """Write forecast.tsv, forecast.json and, if matplotlib is installed, forecast.svg."""
    with directory_published_at_end(directory) as staging:
        table = pd.DataFrame(map(asdict, rows))
        table.to_csv(staging / "forecast.tsv", sep="\t", index=False, float_format="%.6g")
        table.to_json(staging / "forecast.json", orient="records", indent=2)
        _draw_forecast(staging / "forecast.svg", table)


def _draw_forecast(path: Path, table: pd.DataFrame) -> None:
    """Draw R^2 against the number of phenotypes or variants, whichever has more values."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        LOGGER.info("no picture is drawn without matplotlib (pip install matplotlib)")
        return
    along, other = "phenotypes", "variants"
    if table.phenotypes.nunique() < table.variants.nunique():
        along, other = other, along
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for (people, epsilon, size), line in table.groupby(["people", "epsilon", other]):
        words = f"{people} people, ε = {epsilon:g}"
        if table[other].nunique() > 1:
            words += f", {size} {other}"
        line = line.sort_values(along)
        axes.plot(line[along], line.r2, marker="o", label=words)
    for (people, _), line in table.groupby(["people", other]):
        best = line.groupby(along).r2_without_noise.first()
        axes.plot(best.index, best, color="grey", lw=0.8, ls=":")
        axes.annotate(
            f"{people} people, no noise", (best.index[0], best.iloc[0]), fontsize=7, va="bottom"
        )
    axes.set(xscale="log", xlabel=f"{along} of the release", ylabel="expected R²", ylim=(0, None))
    axes.legend(fontsize=8)
    figure.savefig(path, metadata={"Date": None})
