"""README.txt and report.html of a release, rendered from release.json by templates beside it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import cache
from pathlib import Path, PurePath
from textwrap import fill
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from scipy.special import expit, ndtr, ndtri

from primo_scale.gaussian.calibration import Cost, composed_epsilon
from primo_scale.humanize import examples, spent_in_words
from primo_scale.outcomes.coding import NO_COMPONENTS, has_components
from primo_scale.publication.pictures import MOST_PICTURES, picture_of
from primo_scale.publication.weights import ScoringWeights, scoring_command
from primo_scale.verify.document import Document, statement_digest
from primo_scale.verify.held_out_accuracy import USUAL_SLOPES, decisive, fits_its_range, told_of
from primo_scale.verify.party import half_range, n_rows
from primo_scale.verify.words import people_in_words


def render_readme(document: Document) -> str:
    """Return README.txt of a release: instructions for scoring, and a list of the files."""
    n_variants = document["cohort"]["n_variants"]
    warnings = [] if document["private"] else [NO_COMPLETE_CASES]
    warnings += [few_variants_in_words(n_variants)] if n_variants <= FEW_VARIANTS else []
    warnings += [f"WARNING: {each}." for each in ancestry_notes(document)]
    scores = document["estimation"]["public_scores"]
    return _template("README.txt").render(
        **document,
        slopes=[(score, slope) for score in scores for slope in score["slopes"]],
        people=people_in_words(document),
        command=" \\\n    ".join(scoring_command(document, PurePath())),
        warnings=warnings,
        accuracies=accuracies_in_words(document),
        cautions=held_out_cautions(document),
    )


def render_party_readme(document: Document) -> str:
    """Return README.txt of a party's release."""
    template = _template("party_README.txt")
    return template.render(**document, rows=n_rows(document), scale=half_range(document))


def render_report(document: Document, public_key: str | None, weights: ScoringWeights) -> str:
    """Return report.html, a self-contained page without external resources.

    The digest of the statement binds it to release.json, which the key signs.
    """
    guarantee, inputs = document["guarantee"], document["public_inputs"]
    covariates = [column["name"] for column in inputs["covariates"]]
    structure = None if has_components(covariates) else NO_COMPONENTS
    people = document["accuracy"]["effective_sample_size"]
    noise = 1 / math.sqrt(max(people, 1.0))
    n_variants = document["cohort"]["n_variants"]
    cautions, ancestry = held_out_cautions(document), ancestry_notes(document)
    few = [few_variants_in_words(n_variants)] if n_variants <= FEW_VARIANTS else []
    return _template("report.html").render(
        **document,
        digest=statement_digest(document),
        rests_on_scores=rests_on_scores(document),
        relatives=RELATIVES,
        cautions=cautions,
        ancestry=ancestry,
        warnings=[*cautions, *ancestry, *([structure] if structure else ()), *few],
        public_key=public_key,
        people=people_in_words(document),
        command=" \\\n  ".join(scoring_command(document, PurePath())),
        meaning=_meaning(guarantee) if guarantee else None,
        measured_r2=_measured_r2(document),
        attenuations=list(
            zip(inputs["phenotypes"], document["estimation"]["attenuation"], strict=False)
        ),
        components=[name for name in covariates if has_components([name])],
        structure=structure,
        pictures=[
            (phenotype["name"], picture_of(weights, number, phenotype["sd"], noise))
            for number, phenotype in enumerate(inputs["phenotypes"][:MOST_PICTURES])
        ],
    )


def render_deployment(document: Document) -> str:
    """Return deployment.yaml, a record for the registry of deployments."""
    return _template("deployment.yaml").render(**document)


def _measured_r2(document: Document) -> str | None:
    """Return the range of R^2 in the people held out, or None if nothing was measured."""
    phenotypes = (document["hold_out"] or {"phenotypes": ()})["phenotypes"]
    found = sorted(r2 for each in phenotypes if (r2 := decisive(each)["r2"]) is not None)
    if not found:
        return None
    ends = [f"{found[0]:.2g}", f"{found[-1]:.2g}"]
    return " to ".join(dict.fromkeys(ends))


def _meaning(guarantee: Document) -> dict[str, Any]:
    """Return consequences of the guarantee: odds, guesses, belief, and power of tests.

    A guess between two cohorts of equal probability is right with (1 + TV)/2, where TV is their
    total variation distance: 2 Phi(mu/2) - 1 for Gaussian noise, and otherwise at most
    1 - 2 (1 - delta)/(1 + e^epsilon).
    """
    epsilon, delta = guarantee["epsilon"], guarantee["delta"]
    gaussian = guarantee["cost"]["epsilon"] == 0
    belief = float(expit(epsilon))
    guess = float(ndtr(guarantee["mu"] / 2)) if gaussian else belief + delta * (1 - belief)
    return {
        "odds": _odds(epsilon),
        "guess": _percent(guess),
        "guess_width": f"{100 * guess:.1f}",
        "belief": _percent(belief),
        "belief_width": f"{100 * belief:.1f}",
        "epsilons": [
            (other, _rounded_up(composed_epsilon(Cost(**guarantee["cost"]), other)))
            for other in (1e-5, 1e-6)
            if other > delta
        ],
        "power": [
            (_percent(alarms), _percent(float(ndtr(ndtri(alarms) + guarantee["mu"]))))
            for alarms in ((0.01, 0.05) if gaussian else ())
        ],
    }


def _odds(epsilon: float) -> str:
    """Return an upper bound on e^epsilon, rounded up to three digits."""
    if epsilon >= math.log(1e6):
        return "more than a million"
    return _rounded_up(math.exp(epsilon))


def _rounded_up(bound: float) -> str:
    return f"{Context(prec=3, rounding=ROUND_CEILING).plus(Decimal(bound)).normalize():,f}"


def _percent(share: float) -> str:
    """Return an upper bound as a percentage, rounded up to three digits, or near 100 to two."""
    if share > 0.9999:
        return "more than 99.99 %"
    if share > 0.99:
        left = Context(prec=2, rounding=ROUND_FLOOR).plus(Decimal(100 * (1 - share)))
        return f"{100 - left} %"
    return f"{_rounded_up(100 * share)} %"


def _span(values: Sequence[float]) -> str:
    """Return the range of some numbers as text."""
    low, high = f"{min(values):.6g}", f"{max(values):.6g}"
    return low if low == high else f"{low} to {high}"


@cache
def _template(name: str) -> Template:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=lambda name: name == "report.html.j2",
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(
        fill=lambda text: fill(text, 100),
        significant="{:.6g}".format,  # release.json has all digits
        span=_span,
        spent=spent_in_words,
        held_out_r=held_out_r,
        slug=lambda text: re.sub("[^a-z0-9]+", "-", text.lower()).strip("-"),
        told_of=told_of,
    )
    return environment.get_template(f"{name}.j2")


# Rules, or their beginnings, that give LD blocks where no option does.
ONE_BLOCK, PANEL_RULE = "one dense block", "cuts of least LD in "

_EFFECTIVE_SIZE = (
    "people in a cohort without noise whose scores explain as much in others, by the spectral "
    "forecast of docs/maths/planning.md, for a trait that is known of everybody in the cohort, "
    "with a heritability of {:.3g} spread evenly over the {}"
)
_VARIANTS = "variants, and the linkage disequilibrium expected at their positions"
RELATIVES = (
    "relatives among the people held out and the other people raise R^2 above that in strangers"
)
_ON_SCORES = (
    "all numbers are too high if people of the cohort took part in the studies of the public scores"
)
# Share of a score's variance between populations above which it is called ancestry.
MOST_BETWEEN = 0.5
# Largest number of variants whose scores are warned of.
FEW_VARIANTS = 50
# What weights without noise are for phenotypes with missing values.
NO_COMPLETE_CASES = (
    "The weights of a phenotype with missing values are not those of the people who have it "
    "(complete cases): X'X counts all n people, and X'Y the n_j people with a value, multiplied by "
    "n/n_j, at most by 10. The two differ even if values are missing at random, and differ much "
    "where there are more variants than people. To compare with a program that leaves out people "
    "without a value, release such a phenotype alone, with --keep of the people who have it."
)
# Option by which a public score chooses the variants, and their source in a release.
CHOICE_BY_SCORE = "extract_by_prior"


def effective_size_in_words(
    heritability: float | None, *, on_scores: bool, stacked: bool = False
) -> str:
    """Return the definition of the effective sample size, with and without public scores.

    `heritability` is that of the forecast's trait, or None for a release without noise.
    """
    definition = "no noise: the cohort's own size"
    if heritability is not None:
        columns = "public scores of the people" if stacked else _VARIANTS
        definition = _EFFECTIVE_SIZE.format(heritability, columns)
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


def cautions_in_words(slopes: Iterable[tuple[str, float, float, float, bool]]) -> list[str]:
    """Return what is wrong with scores that predict the opposite or have slopes far from 1.

    The scores have a name, the slope of the phenotype with the ends of its 95% interval, and
    whether their correlation is below 0 beyond its interval.
    """
    slopes = list(slopes)
    opposite = [name for name, *_, is_opposite in slopes if is_opposite]
    words = []
    if opposite:
        words.append(
            f"predicts the opposite, r < 0: {examples(opposite)}. Check the alleles, and the "
            "direction of the phenotype"
        )
    far = [each for each in slopes if not (each[4] or each[2] <= 1 <= each[3])]
    low, high = USUAL_SLOPES
    for kind, found in (
        (f"below {low:g}, so that weights are too large", [s for s in far if s[1] < low]),
        (f"above {high:g}, so that weights are too small", [s for s in far if s[1] > high]),
    ):
        if found:
            names = examples([f"{name} ({slope:.2g})" for name, slope, *_ in found])
            words.append(
                f"slope {kind} by this factor: {names}. Population structure, a panel with few of "
                "the variants, or bounds and units that do not fit the phenotype do this"
            )
    return words


def held_out_cautions(document: Mapping[str, Any]) -> list[str]:
    """Return `cautions_in_words` of the scores that a release measured in people held out."""
    slopes = []
    for phenotype in (document["hold_out"] or {"phenotypes": ()})["phenotypes"]:
        each = decisive(phenotype)
        if each["slope_lower"] is not None:
            numbers = each["slope"], each["slope_lower"], each["slope_upper"]
            slopes.append((phenotype["name"], *numbers, each["slope"] < 0 < each["r2_lower"]))
    return cautions_in_words(slopes)


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
    public, scores = document["public_inputs"], document["estimation"]["public_scores"]
    sources = [each["source"] for each in public["sources"]]
    return CHOICE_BY_SCORE in sources or bool(scores or public["score_features"])


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
