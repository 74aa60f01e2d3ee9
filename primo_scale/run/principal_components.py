"""Principal components of the people of a cohort, projected from the loadings of a public panel.

A component is a function of one person's genotypes and of public numbers, and so a covariate like
any other (docs/maths/principal-components.md). The projection reads the genotype store once.
"""

from __future__ import annotations

import io
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from primo_scale.errors import InputError
from primo_scale.genotypes.coding import GenotypeCoding, read_reference_frequencies
from primo_scale.genotypes.store import GenotypeStore
from primo_scale.genotypes.tables import SampleTable, VariantTable
from primo_scale.interruption import check
from primo_scale.machine import n_threads
from primo_scale.outcomes.coding import (
    CovariateBounds,
    OutcomeCoding,
    names_with_bounds,
    read_covariate_bounds,
)
from primo_scale.outcomes.store import ComponentRows
from primo_scale.run.run_log import LOGGER, progress_bar
from primo_scale.storage import groups
from primo_scale.storage.files import (
    refuse_missing_file,
    sha256_of_file,
    sha256_of_json,
    write_atomically,
)
from primo_scale.storage.groups import write_array
from primo_scale.verify.document import StatedLoadings

if TYPE_CHECKING:
    import pandas as pd

    from primo_scale.evaluation.scores import Genotypes, MatchedWeights

# Functions import the code of scores, so that a run without loadings does not load it.

KIND = "principal components"
SUFFIX = ".eigenvec.allele"
_ARRAY = "components"
_FREQUENCIES = (".acount", ".afreq")
_PANEL_SCORES = ".sscore"
_TEXT = ("ID", "REF", "ALT", "A1")  # columns of the loadings, before those of the components
_PERSON = "IID"
_UNUSED = ("CHROM", "PROVISIONAL_REF?")
_REMEDY = "Write it with 'plink2 --pca allele-wts' on a public panel"
# Weights are integers and centres multiples of 1/_CENTRE, so that every sum is an exact float64 and
# does not depend on the order of its terms, in steps of a 127th copy of an allele too.
_CENTRE, _EXACT = 2**14, 2**45
_MARGIN = 3.0  # standard deviations by the sampling of genotypes, beyond the range of the panel
_LARGEST_NOISE = 1.3  # variance of noise in the panel, over that without LD
_FARTHEST = 4.0  # standard deviations of a component in new people, from the panel's mean

Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Loadings:
    """Loadings of a public panel, matched to the variants of a cohort."""

    source: StatedLoadings
    bounds: tuple[CovariateBounds, ...]  # of each component, in the unit of ``plink2 --score``
    weights: MatchedWeights  # of the standardised genotypes, in units of `step`
    step: float
    people: frozenset[str] = frozenset()  # of the panel, as far as the bounds are its range


def read_loadings(path: Path, bounds: Path | None, store: GenotypeStore) -> Loadings:
    """Read the loadings of a public panel, and log how they match the variants of the cohort.

    The panel's allele frequencies, .acount or .afreq, lie beside the file. So do the components of
    the panel's own people, .sscore, unless the table `bounds` has bounds of every component. People
    of the cohort must not be among them.
    """
    source, spread, weights, step = _matched(path, store.variants)
    ranges, people = _bounds(path, bounds, spread, source.n_variants, store.samples)
    return Loadings(source, ranges, weights, step, people)


def components_of(path: Path, genotypes: Genotypes) -> dict[str, Float64]:
    """Return each component of all people, in memory. PRIVATE."""
    from primo_scale.evaluation.scores import score_people

    _, names, weights, step = _matched(path, genotypes.variants)
    return dict(zip(names, (score_people(genotypes, weights) * step).T, strict=True))


def _matched(
    path: Path, variants: VariantTable
) -> tuple[StatedLoadings, dict[str, float], MatchedWeights, float]:
    """Read loadings, and return source, spreads by name, weights and step, as in `Loadings`.

    A spread is the standard deviation of a component in people without structure.
    """
    from primo_scale.evaluation.scores import ScoringFile, match_weights

    if not path.name.endswith(SUFFIX):
        raise InputError("is no file of loadings", where=path, remedy=f"Give a file PREFIX{SUFFIX}")
    refuse_missing_file(path)
    table = _read_table(path, _TEXT, lambda name: name not in _UNUSED)
    names = tuple(name for name in table.columns if name not in _TEXT)
    # The loading of REF is minus that of ALT.
    table = table[table["A1"] == table["ALT"]].rename(
        columns={"A1": "effect_allele", "REF": "other_allele"}
    )
    per_allele = table[list(names)].to_numpy(np.float64)
    matched = match_weights(ScoringFile(path, table, names, per_allele), variants)
    frequencies = _beside(path, _FREQUENCIES, "Give plink2 --freq counts in the same command")
    frequency = _frequencies(frequencies, variants, matched)
    spread = np.sqrt((matched.per_allele1**2).sum(axis=0)) / len(frequency)
    weights, step = _standardised(matched, frequency)
    LOGGER.info("--pc-loadings: %s", matched.counts.in_words())
    digests = [sha256_of_file(path), sha256_of_file(frequencies)]
    stated = StatedLoadings(path.name, sha256_of_json(digests), matched.counts.matched, len(names))
    return stated, dict(zip(names, spread.tolist(), strict=True)), weights, step


def _frequencies(path: Path, variants: VariantTable, matched: MatchedWeights) -> Float64:
    """Return the panel's frequencies of A1 of the matched variants, and refuse missing ones."""
    frequency = read_reference_frequencies(path, variants).a1_frequency[matched.variants]
    unknown = int(np.isnan(frequency).sum())
    if unknown:
        raise InputError(
            f"has no frequency of {unknown} of {len(frequency)} variants that have loadings",
            where=path,
            remedy="Write both files with the same plink2 command",
        )
    return frequency


def project(path: Path, store: GenotypeStore, loadings: Loadings) -> ComponentRows:
    """Write the components of all people of a store, or find them written. PRIVATE.

    They are 8 bytes for each person and component, and in memory until all are computed.
    """
    from primo_scale.evaluation.scores import people_of_store, score_people

    request = sha256_of_json({"loadings": loadings.source.sha256, "store": store.identity_digest})
    if groups.is_complete(path, KIND):
        group = groups.open_group(path, KIND)
        if groups.attributes_of(group)["request"] == request:
            return ComponentRows(request, groups.array_of(group, _ARRAY))
    values = np.empty((store.n_samples, len(loadings.bounds)))
    width = store.chunk_shape[1]
    starts = range(0, store.n_samples, width)

    def score_chunk(start: int) -> None:
        samples = slice(start, min(start + width, store.n_samples))
        people = people_of_store(store, samples, np.arange(samples.stop - samples.start))
        values[samples] = score_people(people, loadings.weights) * loadings.step

    with (
        progress_bar("principal components", "chunks") as move,
        threadpool_limits(1),
        ThreadPoolExecutor(n_threads()) as threads,
    ):
        try:
            for done, _ in enumerate(threads.map(score_chunk, starts), 1):
                check()
                move(done, len(starts))
        finally:
            threads.shutdown(cancel_futures=True)
    group = groups.create_group(path, KIND, {"request": request})
    array = write_array(group, _ARRAY, values, (width, values.shape[1]))
    groups.flush(group)
    groups.mark_complete(group, {})
    return ComponentRows(request, array)


def genotypes_by_components(
    loadings: Loadings, genotypes: GenotypeCoding, outcomes: OutcomeCoding
) -> Float64:
    """Return the regression of coded genotypes on the codes of the components, shape (d, k).

    For orthogonal loadings a of standardised genotypes z, the component p = s a'z explains
    ``a p / (s |a|^2)`` of z. It is a function of the public loadings alone.
    """
    matched = loadings.weights
    frequency = matched.centre / 2
    sd = np.sqrt(2 * frequency * (1 - frequency))[:, None]
    per_sd = matched.per_allele1 * loadings.step * sd
    slopes = per_sd * sd / np.maximum((per_sd**2).sum(axis=0), np.finfo(np.float64).tiny)
    scale = [each.scale for each in outcomes.covariates[-len(loadings.bounds) :]]
    found = np.zeros((len(genotypes.multiplier), len(scale)))
    found[matched.variants] = slopes * genotypes.multiplier[matched.variants, None] / scale
    return found


def write_ancestry(path: Path, slopes: Float64) -> None:
    """Store the result of `genotypes_by_components`, which is public."""
    content = io.BytesIO()
    np.save(content, slopes.astype(np.float32), allow_pickle=False)
    write_atomically(path, content.getvalue())


def read_ancestry(path: Path) -> npt.NDArray[np.float32]:
    """Return what `write_ancestry` stored; a damaged or missing file is refused."""
    try:
        return np.asarray(np.load(path, allow_pickle=False), dtype=np.float32)
    except (OSError, ValueError) as error:
        remedy = "Run accumulate again, which writes it anew"
        raise InputError("is missing or damaged", where=path, remedy=remedy) from error


def _standardised(matched: MatchedWeights, frequency: Float64) -> tuple[MatchedWeights, float]:
    """Return weights for the mean of loadings times standardised genotypes, and their unit.

    A missing genotype counts as the mean of the panel, and a variant without variance there as 0.
    """
    sd = np.sqrt(2 * frequency * (1 - frequency))
    each = np.divide(1 / len(sd), sd, out=np.zeros_like(sd), where=sd > 0)
    weights = matched.per_allele1 * each[:, None]
    largest = 2 * np.abs(weights).sum(axis=0).max(initial=np.finfo(np.float64).tiny)
    step = 2.0 ** math.ceil(math.log2(largest * _CENTRE / _EXACT) + 1)
    integers, centre = np.rint(weights / step), np.rint(2 * frequency * _CENTRE) / _CENTRE
    constant = -(centre @ integers)
    return replace(matched, per_allele1=integers, constant=constant, centre=centre), step


def _bounds(
    path: Path,
    given: Path | None,
    spread: Mapping[str, float],
    n_variants: int,
    cohort: SampleTable,
) -> tuple[tuple[CovariateBounds, ...], frozenset[str]]:
    """Return the bounds of a table, or the range in the panel and what sampling adds to it.

    They come with the panel's people, if these gave a range.
    `spread` is that of `_matched`.
    """
    known: Collection[str] = () if given is None else names_with_bounds(given).intersection(spread)
    read = () if given is None else read_covariate_bounds(given, tuple(known))
    by_name = {each.name: each for each in read}
    wanted, people = [name for name in spread if name not in by_name], frozenset[str]()
    if wanted:
        remedy = "Compute the same scores of the panel's people with plink2 --score"
        scores = _beside(path, (_PANEL_SCORES,), f"{remedy}, or give bounds in --covar-bounds")
        columns = [f"{name}_AVG" for name in wanted]
        table = _read_table(scores, (_PERSON, *columns), (_PERSON, *columns).__contains__)
        cohort.refuse_shared_people(table[_PERSON], scores)
        people = frozenset(table[_PERSON])
        fitted = _fitted_variance(min(spread.values()), n_variants / len(table))
        noise = min(fitted, _LARGEST_NOISE * float(table[columns].var().min()))
        for name in wanted:
            values, margin = table[f"{name}_AVG"], _MARGIN * spread[name]
            others = math.sqrt(spread[name] ** 2 + max(float(values.var()) - noise, 0.0))
            far = _FARTHEST * others
            low = max(float(values.min()) - margin, float(values.mean()) - far)
            high = min(float(values.max()) + margin, float(values.mean()) + far)
            by_name[name] = CovariateBounds(name, low, high, (low + high) / 2)
    return tuple(by_name[name] for name in spread), people


def _fitted_variance(spread: float, variants_per_person: float) -> float:
    """Return the variance of a component without structure in the panel that loadings came from.

    Loadings fit these people, so that it is far above the variance in others, `spread` squared. It
    is the edge of the Marchenko-Pastur law, and more because variants are correlated.
    """
    return _LARGEST_NOISE * (spread * (1 + math.sqrt(variants_per_person))) ** 2


def _beside(path: Path, suffixes: tuple[str, ...], remedy: str) -> Path:
    """Return the first of the files of the same prefix that exists."""
    prefix = path.name.removesuffix(SUFFIX)
    found = [path.with_name(prefix + suffix) for suffix in suffixes]
    for each in found:
        if each.is_file():
            return each
    raise InputError("no such file beside the loadings", where=found[0], remedy=remedy)


def _read_table(
    path: Path, required: Collection[str], is_used: Callable[[str], bool]
) -> pd.DataFrame:
    """Return the used columns of a table of plink2: numbers, other than `_TEXT` and `_PERSON`."""
    import pandas as pd

    kinds: defaultdict[str, type] = defaultdict(lambda: np.float64)
    kinds |= dict.fromkeys((*_TEXT, _PERSON, f"#{_PERSON}"), str)
    try:
        table = pd.read_csv(
            path, sep="\t", usecols=lambda name: is_used(name.removeprefix("#")), dtype=kinds,
            na_filter=False,
        ).rename(columns=lambda name: name.removeprefix("#"))  # fmt: skip
    except ValueError as error:
        raise InputError(f"is malformed: {error}", where=path, remedy=_REMEDY) from error
    missing = [name for name in required if name not in table.columns]
    numbers = table.select_dtypes("number")
    if missing or numbers.empty or not np.isfinite(numbers.to_numpy()).all():
        problem = f"no column {missing[0]}" if missing else "no finite numbers in every row"
        raise InputError(problem, where=path, remedy=_REMEDY)
    return table
