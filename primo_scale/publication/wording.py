"""Sentences about a release for its readers: README.txt, report.html and the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from primo_scale.humanize import examples
from primo_scale.verify.held_out_accuracy import USUAL_SLOPES, decisive, fits_its_range, told_of

ONE_BLOCK, PANEL_RULE = "one dense block", "cuts of least LD in "
"""Rules, or their beginnings, that give LD blocks where no option does."""

_EFFECTIVE_SIZE = (
    "people in a cohort without noise whose scores explain as much in others, by the spectral "
    "planner of docs/maths/planner.md, for a trait that is known of everybody in the cohort, with "
    "a heritability of {:.3g} spread evenly over the variants, and the linkage disequilibrium "
    "expected at their positions"
)
RELATIVES = (
    "relatives among the people held out and the other people raise R^2 above that in strangers"
)
_ON_SCORES = (
    "all numbers are too high if people of the cohort took part in the studies of the public scores"
)
MOST_BETWEEN = 0.5
"""Share of a score's variance between populations above which it is called ancestry."""
FEW_VARIANTS = 50
"""Largest number of variants whose scores are warned of."""
NO_COMPLETE_CASES = (
    "The weights of a phenotype with missing values are not those of the people who have it "
    "(complete cases): X'X counts all n people, and X'Y the n_j people with a value, multiplied by "
    "n/n_j, at most by 10. The two differ even if values are missing at random, and differ much "
    "where there are more variants than people. To compare with a program that leaves out people "
    "without a value, release such a phenotype alone, with --keep of the people who have it."
)
"""What weights without noise are for phenotypes with missing values."""
CHOICE_BY_SCORE = "--extract-by-prior"
"""Option by which a public score chooses the variants, and their source in a release."""


def effective_size_in_words(heritability: float | None, *, on_scores: bool) -> str:
    """Return the definition of the effective sample size, with and without public scores.

    `heritability` is that of the forecast's trait, or None for a release without noise.
    """
    definition = "no noise: the cohort's own size"
    if heritability is not None:
        definition = _EFFECTIVE_SIZE.format(heritability)
    return definition + ("; public scores are not counted" if on_scores else "")


def few_variants_in_words(n_variants: int) -> str:
    """Return what is given away by scores of at most `FEW_VARIANTS` variants."""
    return (
        f"A score of {n_variants} variant{'s' * (n_variants != 1)} is a sum of few weights. "
        "Whoever publishes the scores of people to many digits publishes numbers from which "
        "genotypes can be computed (Nikitin and Gursoy, bioRxiv 2026.02.16.706191), whatever "
        "protects the weights. Keep individual scores private, or round them."
    )


def accuracies_in_words(document: Mapping[str, Any]) -> list[str]:
    """Return the accuracy of each phenotype's weights in the people held out, on a line each.

    The first lines say what the others take for granted.
    """
    if document["hold_out"] is None:
        return []
    sigma = {query["name"]: query["sigma"][0] for query in document["mechanism"]["queries"]}
    noise, measured = sigma["held_out_counts"], document["hold_out"]["phenotypes"]
    beyond = "beyond covariates " if document["cohort"]["n_covariates"] else ""
    lines = [line for each in measured for line in _accuracy_in_words(each, noise, beyond)]
    return [RELATIVES, *([_ON_SCORES] if rests_on_scores(document) else []), *lines]


@dataclass(frozen=True)
class ScoreSlope:
    """Slope of a phenotype on its score with a 95% interval, and the sign of their correlation."""

    name: str
    slope: float
    lower: float
    upper: float
    reversed: bool  # whether the correlation is below 0 beyond its interval


def cautions_in_words(slopes: Iterable[ScoreSlope]) -> list[str]:
    """Return what is wrong with scores that predict the opposite or have slopes far from 1."""
    slopes = list(slopes)
    opposite = [each.name for each in slopes if each.reversed]
    far = [each for each in slopes if not (each.reversed or each.lower <= 1 <= each.upper)]
    low, high = USUAL_SLOPES
    words = []
    if opposite:
        words.append(
            f"predicts the opposite, r < 0: {examples(opposite)}. Check the alleles, and the "
            "direction of the phenotype"
        )
    for kind, found in (
        (f"below {low:g}, so that weights are too large", [s for s in far if s.slope < low]),
        (f"above {high:g}, so that weights are too small", [s for s in far if s.slope > high]),
    ):
        if found:
            names = examples([f"{each.name} ({each.slope:.2g})" for each in found])
            words.append(
                f"slope {kind} by this factor: {names}. Population structure, a panel with few of "
                "the variants, or bounds and units that do not fit the phenotype do this"
            )
    return words


def held_out_cautions(document: Mapping[str, Any]) -> list[str]:
    """Return `cautions_in_words` of the scores that a release measured in people held out."""
    measured = (document["hold_out"] or {"phenotypes": ()})["phenotypes"]
    return cautions_in_words(
        ScoreSlope(
            phenotype["name"],
            each["slope"],
            each["slope_lower"],
            each["slope_upper"],
            reversed=each["slope"] < 0 < each["r2_lower"],
        )
        for phenotype in measured
        if (each := decisive(phenotype))["slope_lower"] is not None
    )


def ancestry_notes(document: Mapping[str, Any]) -> list[str]:
    """Return which scores are mostly ancestry, as their variance in the panel tells."""
    names = [phenotype["name"] for phenotype in document["public_inputs"]["phenotypes"]]
    shares = zip(names, document["estimation"]["between_populations"], strict=False)
    most = [f"{name} ({share:.0%})" for name, share in shares if share > MOST_BETWEEN]
    return most and [
        f"{len(most)} of {len(names)} scores are mostly ancestry: so much of their variance in the "
        f"LD panel lies between its populations: {examples(most)}. Do not compare people of "
        "different populations by them"
    ]


def rests_on_scores(document: Mapping[str, Any]) -> bool:
    """Return whether weights build on public scores, or are of variants that one chose."""
    sources = [each["source"] for each in document["public_inputs"]["sources"]]
    return CHOICE_BY_SCORE in sources or bool(document["estimation"]["public_scores"])


def _accuracy_in_words(phenotype: Mapping[str, Any], noise: float, beyond: str) -> Iterator[str]:
    for group, each in told_of(phenotype):
        name = ", ".join(filter(None, (phenotype["name"], group)))
        if each["r2"] is None:
            yield f"{name}: R^2 0 to 1, {_why_hidden(phenotype['counts'], noise)}"
            continue
        r, r2 = held_out_r(each), _with_interval(each, "r2")
        found = [f"{name}: {beyond}r {r:.3f}, R^2 {r2}"]
        if each["slope_lower"] is not None:
            found.append(f"slope {_with_interval(each, 'slope')}")
        if each.get("auc") is not None:
            found.append(f"AUC {_with_interval(each, 'auc')}")
            found.append(f"R^2 of the liability {_with_interval(each, 'liability_r2')}")
        if each is decisive(phenotype) and phenotype["calibration"] != 1:
            found.append("by which the weights were multiplied afterwards")
        yield ", ".join(found)


def held_out_r(phenotype: Mapping[str, Any]) -> float:
    """Return the correlation of score and phenotype, whose sign is that of the slope."""
    return math.copysign(math.sqrt(phenotype["r2"]), phenotype["slope"])


def _why_hidden(counts: Sequence[int], noise: float) -> str:
    """Return why an accuracy is not stated, as far as noisy counts of people tell."""
    total = sum(counts)
    if total < 3 * noise * math.sqrt(len(counts)):
        return "because few of the people held out have a value, or the noise hides it"
    if fits_its_range(counts, noise):
        return "because the noise hides it"
    return (
        "because the phenotype, less its public mean and what the covariates explain, is beyond "
        f"three public standard deviations in about {min(counts[-1] / total, 1.0):.0%} of the "
        "people held out, or the noise hides it"
    )


def _with_interval(numbers: Mapping[str, Any], name: str) -> str:
    lower, upper = numbers[f"{name}_lower"], numbers[f"{name}_upper"]
    return f"{numbers[name]:.3f} ({lower:.3f} to {upper:.3f})"
