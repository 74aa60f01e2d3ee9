"""Public inputs of a run: bounds, frequencies, LD panel, populations, public scores, loadings.

Everything here is read from public files and matched to the variants of a cohort. The readers of
scores are imported by the functions that need them, so that a run without scores is quick to start.
A principal component, projected from the loadings of a public panel, is a function of one person's
genotypes and of public numbers, and so a covariate like any other
(docs/maths/adjustment.md). The projection reads the genotype store once.
"""

from __future__ import annotations

import io
import logging
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from primo_scale.errors import InputError, UsageError
from primo_scale.genotypes import coding as genotype_coding
from primo_scale.genotypes.coding import MOST_MATCHED, MatchedFrequencies
from primo_scale.genotypes.store import HARD_CALLS, GenotypeStore
from primo_scale.genotypes.tables import NOT_REPORTED, Index, VariantTable
from primo_scale.interruption import check
from primo_scale.machine import n_threads
from primo_scale.methods.effects import PublicScores
from primo_scale.methods.linear_algebra import Float64
from primo_scale.outcomes import coding as outcome_codes
from primo_scale.outcomes.coding import OutcomeCoding
from primo_scale.outcomes.store import ComponentRows
from primo_scale.outcomes.tables import open_outcome_table, read_groups
from primo_scale.panel.ld import LdPanel, fixation_index, open_ld_panel
from primo_scale.run import fields, options
from primo_scale.run.design import Design, Loadings, PanelDesign, PanelPopulations, PublicPanels
from primo_scale.run.run_log import LOGGER, progress_bar
from primo_scale.storage import files, groups
from primo_scale.verify import document as statements

if TYPE_CHECKING:
    import pandas as pd

    from primo_scale.evaluation.scores import Genotypes, MatchedWeights, ScoringFile

_PRIOR = "--prior-weights"
_LEAST_CALLED = 0.95  # share of the cohort's genotypes of a variant that are usually called
# F_ST is about .01 between Finns and Tuscans of the 1000 Genomes Project, .03 between Europeans and
# Gujaratis, and .05 between Europeans and Africans, of the thinned HapMap3 data in tests/reference.
_LARGEST_INDEX = 0.02
_TELLING = 0.1  # distance of a frequency from a half that tells which allele is counted

# ---- Bounds and panels ---------------------------------------------------------------------------


def phenotype_bounds(tables: options.OutcomeTables) -> tuple[outcome_codes.PhenotypeBounds, ...]:
    """Return the public bounds of the requested phenotypes; reads only headers and bounds."""
    # Names are checked before the bounds, which lack a mistyped name too.
    names = open_outcome_table(tables.pheno).matching(tables.pheno_name)
    return outcome_codes.read_phenotype_bounds(_given(tables.pheno_bounds), names)


def outcome_coding(
    tables: options.OutcomeTables, privacy: options.Privacy, store: GenotypeStore
) -> tuple[OutcomeCoding, Loadings | None]:
    """Return the public coding of phenotypes and covariates, and the loadings of components."""
    loadings = None
    if tables.pc_loadings is not None:
        loadings = read_loadings(tables.pc_loadings, tables.covar_bounds, store)
    phenotypes = phenotype_bounds(tables)
    covariates: tuple[outcome_codes.CovariateBounds, ...] = ()
    if tables.covar is not None:
        columns = open_outcome_table(tables.covar).matching(tables.covar_name)
        covariates = outcome_codes.read_covariate_bounds(_given(tables.covar_bounds), columns)
    if loadings is not None:
        covariates += loadings.bounds
    unit = outcome_codes.LARGEST_UNIT if privacy.non_private else outcome_codes.ADJUSTED_UNIT
    return outcome_codes.code_outcomes(phenotypes, covariates, largest_unit=unit), loadings


def _given(path: Path | None) -> Path:
    if path is None:
        raise ValueError("OutcomeTables refuses a table without bounds")
    return path


def read_panels(
    model: options.AccumulateRequest,
    store: GenotypeStore,
    coding: OutcomeCoding,
    loadings: Loadings | None,
    settled: PanelDesign | None,
) -> PublicPanels:
    """Read the public panels of a model, and warn of what costs accuracy."""
    frequencies, ld = None, None
    if model.ref_freq is not None:
        frequencies = genotype_coding.read_reference_frequencies(model.ref_freq, store.variants)
        LOGGER.info("--ref-freq: %s", frequencies.counts.in_words())
        genotype_coding.refuse_few_matches(frequencies)
        _warn_of_few_matches("--ref-freq", frequencies.counts.matched, store)
    elif store.packing is not HARD_CALLS:
        raise UsageError(
            "dosages need the allele frequencies of a public panel: without them, codes are -1, 0 "
            "and 1",
            where=str(store.path),
            remedy="Give --ref-freq, or ingest hard calls (without --dosages)",
        )
    if model.ld_panel is not None:
        ld = open_ld_panel(model.ld_panel, store.variants)
        store.samples.refuse_shared_people(ld.people, ld.name)
        LOGGER.info(
            "--ld-panel: %d people; %d of %d variants matched%s",
            ld.n_people, ld.n_matched, store.n_variants,
            f" ({ld.swapped.sum()} with alleles swapped)" if ld.swapped.any() else "",
        )  # fmt: skip
        _warn_of_few_matches("--ld-panel", ld.n_matched, store)
    populations = _read_populations(model.panel_populations, ld, loadings, coding)
    if frequencies is not None and not model.non_private:
        _warn_of_own_frequencies(frequencies, store)
    if frequencies is not None and ld is not None:
        warn_of_other_population(ld, frequencies)
    return PublicPanels(frequencies, ld, settled, loadings, populations)


def _warn_of_few_matches(option: str, n_matched: int, store: GenotypeStore) -> None:
    if n_matched < MOST_MATCHED * store.n_variants:
        LOGGER.warning(
            "%s: has %d of %d variants, less than %d%%: scores explain less than forecast, and "
            "their slopes are far from 1. Give a panel with these variants, or leave the others "
            "out (--extract)", option, n_matched, store.n_variants, round(100 * MOST_MATCHED),
        )  # fmt: skip


def _warn_of_own_frequencies(matched: MatchedFrequencies, store: GenotypeStore) -> None:
    """Warn of frequencies that seem to be counted in the people of the cohort."""
    most = 2 * store.n_samples
    if _LEAST_CALLED * most <= matched.n_alleles <= most:
        LOGGER.warning(
            "%s: seems to be counted in the cohort: it has %g alleles of most variants, and the "
            "cohort has %d people. Frequencies of the cohort are private, and the guarantee does "
            "not cover them: give those of a public panel (docs/how-to/public-inputs.md)",
            matched.path, matched.n_alleles, store.n_samples,
        )  # fmt: skip


def warn_of_other_population(panel: LdPanel, frequencies: MatchedFrequencies) -> None:
    """Warn if the LD panel and the allele frequencies are of different populations."""
    index = fixation_index(panel.a1_frequencies(), panel.n_people, frequencies.a1_frequency)
    if index <= _LARGEST_INDEX:
        return
    LOGGER.warning(
        "--ld-panel and --ref-freq are of different populations: F_ST is %.3f, and below %g within "
        "a continent. Give both for the population of the cohort, "
        "or the release is less accurate (docs/methods.md); its guarantee is the same",
        index, _LARGEST_INDEX,
    )  # fmt: skip


def warn_of_other_alleles(store: GenotypeStore, frequencies: MatchedFrequencies) -> None:
    """Warn if the cohort's own frequencies do not fit those of the panel. PRIVATE: of the cohort.

    They do not where allele 1 and allele 2 are exchanged, and in another population.
    """
    own, other = store.a1_frequencies(), frequencies.a1_frequency
    if own is None:
        return
    index = fixation_index(own, store.n_samples, other)
    if index <= _LARGEST_INDEX:
        return
    tell = np.abs(other - 0.5) > _TELLING
    exchanged = np.abs(own - other)[tell] > np.abs(1 - own - other)[tell]
    LOGGER.warning(
        "the genotypes do not have the frequencies of --ref-freq: F_ST is %.3f, and below %g "
        "within a continent; %d of %d variants fit the frequency of their other allele better. "
        "Where most do, allele 1 and allele 2 of the genotype files are exchanged, and scores "
        "predict the opposite; otherwise give --ref-freq for the population of the cohort",
        index, _LARGEST_INDEX, exchanged.sum(), tell.sum(),
    )  # fmt: skip


# ---- Populations of the panel --------------------------------------------------------------------
# A person of the cohort belongs to the population whose centroid is nearest, in the space of public
# loadings: a function of one person's genotypes and of public numbers.


def _read_populations(
    path: Path | None, panel: LdPanel | None, loadings: Loadings | None, coding: OutcomeCoding
) -> PanelPopulations | None:
    """Read the population of every person of a panel, and compute the centroids of each."""
    if path is None or panel is None:
        return None
    group_of = read_groups(path)
    labels = [group_of.get(person, "") for person in panel.people]
    names, members, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    if "" in labels or min(len(names), *sizes) < 2:
        raise InputError(
            "does not have, by IID, the populations of all people of the panel",
            where=path,
            value=", ".join(map("{} {}".format, (name or "none" for name in names), sizes)),
            limit="2 populations of 2 people, or more",
            remedy="Give a table of IID and population for the people of --ld-panel",
        )
    centroids = np.empty((len(names), 0), dtype=np.int16)
    if loadings is not None:
        means = (np.eye(len(names))[members].T @ _components(panel, loadings)) / sizes[:, None]
        centroids = coding.code_covariates(means, slice(-means.shape[1], None))
    means_of = map(tuple, centroids.tolist())
    populations = tuple(map(statements.StatedPopulation, names.tolist(), sizes.tolist(), means_of))
    prefixes = tuple(str(prefix.resolve()) for prefix in panel.prefixes)
    source = statements.StatedPopulations(path.name, files.sha256_of_file(path), populations)
    if loadings is not None and not loadings.people.isdisjoint(panel.people):
        LOGGER.warning(
            "panel_populations: how much of a score is ancestry is not stated: loadings are of "
            "the people of --ld-panel, in whom scores show none. Give an --ld-panel of other people"
        )
        members = members[:0]
    return PanelPopulations(source, panel.sha256, prefixes, tuple(members.tolist()))


def groups_of(rows: outcome_codes.Int16, design: Design) -> npt.NDArray[np.intp]:
    """Return the group of each coded row, shape (people,): the population that is nearest.

    Without populations or components all are in one.
    """
    if not design.groups or design.populations is None:
        return np.zeros(len(rows), dtype=np.intp)
    covariates = design.outcomes.covariates
    centroids = np.array([each.centroid for each in design.populations.source.populations])
    parts = slice(len(covariates) - centroids.shape[1], len(covariates))
    moved = (rows[:, None, 1:][..., parts] - centroids) / [c.scale for c in covariates[parts]]
    return np.asarray((moved**2).sum(axis=2).argmin(axis=1))


def open_panel(design: Design, variants: VariantTable) -> LdPanel | None:
    """Open the panel of a design whose scores it judges again; another one is refused."""
    if design.populations is None or not design.populations.members:
        return None
    panel = open_ld_panel(tuple(map(Path, design.populations.prefixes)), variants)
    if panel.sha256 != design.populations.panel:
        raise InputError(
            "is not the panel that the statistics were made with",
            where=panel.name,
            remedy="Restore its files: what of the scores is ancestry is computed from them",
        )
    return panel


def shares_between(design: Design, panel: LdPanel | None, weights: Float64) -> tuple[float, ...]:
    """Return the share of each score's variance in the panel that is between its populations.

    The weights of one copy of allele 1 have the shape (d, l). The variance components are those of
    the one-way analysis of variance, which does not count what few people differ by chance.
    """
    if panel is None or design.populations is None:
        return ()
    one = np.eye(max(design.populations.members) + 1)[list(design.populations.members)]
    scores, sizes, people = panel.scores(weights), one.sum(axis=0), len(one)
    means = one.T @ scores / sizes[:, None]
    within = ((scores - one @ means) ** 2).sum(axis=0) / (people - len(sizes))
    among = sizes @ (means - scores.mean(axis=0)) ** 2 - (len(sizes) - 1) * within
    between = np.maximum(among, 0) / (people - (sizes**2).sum() / people)
    shares = np.divide(between, between + within, out=np.zeros_like(within), where=within > 0)
    return tuple(np.round(shares, 3).tolist())  # the last bits may differ between machines


def _components(panel: LdPanel, loadings: Loadings) -> Float64:
    """Return the components of the panel's people, shape (people, k)."""
    matched, frequency = loadings.weights, panel.a1_frequencies()
    weights = np.zeros((len(frequency), matched.per_allele1.shape[1]))
    weights[matched.variants] = matched.per_allele1 * loadings.step
    # Scores are differences from the panel's mean, whose components are these.
    apart = np.nan_to_num(2 * frequency[matched.variants] - matched.centre)
    return panel.scores(weights) + apart @ weights[matched.variants]


# ---- Public scores -------------------------------------------------------------------------------


def read_prior_scores(
    priors: Iterable[options.PriorFile], variants: VariantTable, design: Design, build: str
) -> tuple[PublicScores | None, tuple[statements.StatedScore, ...]]:
    """Read the public scores of a release and their origins, and log how they match."""
    phenotypes = [p.name for p in design.outcomes.phenotypes]
    columns = [each for file in priors for each in read_columns(file, variants, phenotypes, build)]
    if not columns:
        return None, ()
    multiplier = design.genotypes.multiplier.astype(np.float64)
    columns_of, named, sources = zip(*columns, strict=True)
    effects = np.stack(columns_of, axis=1) / multiplier[:, None]
    used = np.array([[each in (None, name) for name in phenotypes] for each in named], np.bool_)
    return PublicScores(effects, used), sources


def read_columns(
    file: options.PriorFile,
    variants: VariantTable,
    phenotypes: list[str] | None,
    build: str,
    *,
    option: str = _PRIOR,
) -> Iterator[tuple[Float64, str | None, statements.StatedScore]]:
    """Yield effects per copy, the phenotype (None for every one) and the source of each score.

    Without names of phenotypes, every score of the file counts.
    """
    from primo_scale.evaluation.scores import match_weights

    if phenotypes is not None and file.phenotype not in (None, *phenotypes):
        raise UsageError(
            "the release has no such phenotype",
            where=_PRIOR,
            value=file.phenotype,
            limit=", ".join(phenotypes)[:80],
        )
    read = read_public(file.path, [file.phenotype] if file.phenotype else phenotypes)
    if read.by_position and (read.build in (None, NOT_REPORTED) or build == NOT_REPORTED):
        LOGGER.warning(
            "%s %s is matched by position, and the genome build of the file or of the genotypes "
            "is not known: give --genome-build, and check that they are the same",
            option, file.path,
        )  # fmt: skip
    elif read.by_position and read.build != build:
        raise InputError(
            f"positions are in {read.build}, those of the genotypes in {build}",
            where=file.path,
            remedy="Give a file with rsID, or one lifted to the genotypes' genome build",
        )
    matched = match_weights(read, variants, may_be_wider=True)
    level = logging.DEBUG if phenotypes is None else logging.INFO  # scores may be thousands
    LOGGER.log(level, "%s %s: %s", option, file.path, matched.counts.in_words())
    sha256, counts = files.sha256_of_file(read.weights_path), matched.counts
    pgs_id = None if read.pgs_id is None else fields.one_line(read.pgs_id)
    file_name = fields.one_line(file.path.resolve().name)
    source = statements.StatedScore(file_name, sha256, pgs_id, counts.total, counts.matched, ())
    for name, weights in zip(read.phenotypes, matched.per_allele1.T, strict=True):
        effects = np.zeros(len(variants))
        effects[matched.variants] = weights
        yield effects, file.phenotype or name, source


def read_public(path: Path, wanted: Collection[str] | None) -> ScoringFile:
    """Read a scoring file, and refuse weights without noise, perhaps of this very cohort."""
    from primo_scale.evaluation.scores import read_scoring_file

    file = read_scoring_file(path, wanted)
    if file.not_private:
        raise InputError(
            "is NOT PRIVATE: its weights reveal the people they were learned from",
            where=path,
            remedy="Give a private release or a published score",
        )
    return file


# ---- Principal components ------------------------------------------------------------------------

_KIND = "principal components"
_SUFFIX = ".eigenvec.allele"
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


def read_loadings(path: Path, bounds: Path | None, store: GenotypeStore) -> Loadings:
    """Read the loadings of a public panel, and log how they match the variants of the cohort.

    The panel's allele frequencies, .acount or .afreq, lie beside the file. So do the components of
    the panel's own people, .sscore, unless the table `bounds` has bounds of every component. People
    of the cohort must not be among them.
    """
    source, spread, weights, step = _matched(path, store.variants)
    known: Collection[str] = ()
    if bounds is not None:
        known = outcome_codes.names_with_bounds(bounds).intersection(spread)
    read = () if bounds is None else outcome_codes.read_covariate_bounds(bounds, tuple(known))
    by_name = {each.name: each for each in read}
    wanted, people = [name for name in spread if name not in by_name], frozenset[str]()
    if wanted:  # the range in the panel, and what sampling adds to it
        remedy = "Compute the same scores of the panel's people with plink2 --score"
        scores = _beside(path, (_PANEL_SCORES,), f"{remedy}, or give bounds in --covar-bounds")
        columns = [f"{name}_AVG" for name in wanted]
        table = _read_table(scores, (_PERSON, *columns), (_PERSON, *columns).__contains__)
        store.samples.refuse_shared_people(table[_PERSON], scores)
        people = frozenset(table[_PERSON])
        # Loadings fit the panel's people, so that the variance of a component without structure
        # is far above that in others: the edge of the Marchenko-Pastur law, and more by LD.
        edge = min(spread.values()) * (1 + math.sqrt(source.n_variants / len(table)))
        fitted = _LARGEST_NOISE * edge**2
        noise = min(fitted, _LARGEST_NOISE * float(table[columns].var().min()))
        for name in wanted:
            values, margin = table[f"{name}_AVG"], _MARGIN * spread[name]
            others = math.sqrt(spread[name] ** 2 + max(float(values.var()) - noise, 0.0))
            far = _FARTHEST * others
            low = max(float(values.min()) - margin, float(values.mean()) - far)
            high = min(float(values.max()) + margin, float(values.mean()) + far)
            by_name[name] = outcome_codes.CovariateBounds(name, low, high, (low + high) / 2)
    return Loadings(source, tuple(by_name[name] for name in spread), weights, step, people)


def components_of(path: Path, genotypes: Genotypes) -> dict[str, Float64]:
    """Return each component of all people, in memory. PRIVATE."""
    from primo_scale.evaluation.scores import score_people

    _, names, weights, step = _matched(path, genotypes.variants)
    return dict(zip(names, (score_people(genotypes, weights) * step).T, strict=True))


def _matched(
    path: Path, variants: VariantTable
) -> tuple[statements.StatedLoadings, dict[str, float], MatchedWeights, Float64]:
    """Read loadings, and return source, spreads by name, weights and step, as in `Loadings`.

    A spread is the standard deviation of a component in people without structure.
    """
    from primo_scale.evaluation.scores import ScoringFile, match_weights

    if not path.name.endswith(_SUFFIX):
        raise InputError(
            "is no file of loadings", where=path, remedy=f"Give a file PREFIX{_SUFFIX}"
        )
    files.refuse_missing_file(path)
    table = _read_table(path, _TEXT, lambda name: name not in _UNUSED)
    names = tuple(name for name in table.columns if name not in _TEXT)
    # The loading of REF is minus that of ALT.
    table = table[table["A1"] == table["ALT"]].rename(
        columns={"A1": "effect_allele", "REF": "other_allele"}
    )
    per_allele = table[list(names)].to_numpy(np.float64)
    matched = match_weights(ScoringFile(path, table, names, per_allele), variants)
    frequencies = _beside(path, _FREQUENCIES, "Give plink2 --freq counts in the same command")
    frequency = genotype_coding.read_reference_frequencies(frequencies, variants).a1_frequency[
        matched.variants
    ]
    unknown = int(np.isnan(frequency).sum())
    if unknown:
        raise InputError(
            f"has no frequency of {unknown} of {len(frequency)} variants that have loadings",
            where=frequencies,
            remedy="Write both files with the same plink2 command",
        )
    spread = np.sqrt((matched.per_allele1**2).sum(axis=0)) / len(frequency)
    # Of loadings times standardised genotypes, the mean: a missing genotype counts as the mean of
    # the panel, and a variant without variance there as 0.
    sd = np.sqrt(2 * frequency * (1 - frequency))
    each = np.divide(1 / len(sd), sd, out=np.zeros_like(sd), where=sd > 0)
    of_copies = matched.per_allele1 * each[:, None]
    weights, step = exact_weights(matched.variants, of_copies, 2 * frequency, matched.counts)
    LOGGER.info("--pc-loadings: %s", matched.counts.in_words())
    digests = [files.sha256_of_file(path), files.sha256_of_file(frequencies)]
    stated = statements.StatedLoadings(
        path.name, files.sha256_of_json(digests), matched.counts.matched, len(names)
    )
    return stated, dict(zip(names, spread.tolist(), strict=True)), weights, step


def project(path: Path, store: GenotypeStore, loadings: Loadings) -> ComponentRows:
    """Write the components of all people of a store, or find them written. PRIVATE.

    They are 8 bytes for each person and component, and in memory until all are computed.
    """
    request = files.sha256_of_json(
        {"loadings": loadings.source.sha256, "store": store.identity_digest}
    )
    if groups.is_complete(path, _KIND):
        group = groups.open_group(path, _KIND)
        if groups.attributes_of(group)["request"] == request:
            return ComponentRows(request, groups.array_of(group, _ARRAY))
    values = np.empty((store.n_samples, len(loadings.bounds)))

    def keep(samples: slice, scores: Float64) -> None:
        values[samples] = scores * loadings.step

    score_everybody("principal components", store, loadings.weights, keep)
    group = groups.create_group(path, _KIND, {"request": request})
    array = groups.write_array(group, _ARRAY, values, (store.chunk_shape[1], values.shape[1]))
    groups.flush(group)
    groups.mark_complete(group, {})
    return ComponentRows(request, array)


def score_everybody(
    words: str,
    store: GenotypeStore,
    weights: MatchedWeights,
    keep: Callable[[slice, Float64], None],
) -> None:
    """Score all people of a store in one reading, on all threads; `keep` gets those of a chunk."""
    from primo_scale.evaluation.scores import people_of_store, score_people

    width = store.chunk_shape[1]
    starts = range(0, store.n_samples, width)

    def score_chunk(start: int) -> None:
        samples = slice(start, min(start + width, store.n_samples))
        people = people_of_store(store, samples, np.arange(samples.stop - samples.start))
        keep(samples, score_people(people, weights))

    with (
        progress_bar(words, "chunks") as move,
        threadpool_limits(1),
        ThreadPoolExecutor(n_threads()) as threads,
    ):
        for done, _ in enumerate(threads.map(score_chunk, starts), 1):
            check()
            move(done, len(starts))


def write_ancestry(path: Path, panels: PublicPanels, design: Design) -> None:
    """Store the regression of coded genotypes on the codes of the components, if there are any.

    It has the shape (d, k). If there are score features, it is that of their codes.

    For orthogonal loadings a of standardised genotypes z, the component p = s a'z explains
    ``a p / (s |a|^2)`` of z. It is a function of the public loadings alone.
    """
    loadings, features, genotypes = panels.loadings, panels.features, design.genotypes
    if loadings is None:
        return
    matched = loadings.weights
    frequency = matched.centre / 2
    sd = np.sqrt(2 * frequency * (1 - frequency))[:, None]
    per_sd = matched.per_allele1 * loadings.step * sd
    slopes = per_sd * sd / np.maximum((per_sd**2).sum(axis=0), np.finfo(np.float64).tiny)
    scale = [each.scale for each in design.outcomes.covariates[-len(loadings.bounds) :]]
    n_variants = len(genotypes.multiplier) if features is None else features.source.n_variants
    found = np.zeros((n_variants, len(scale)))
    found[matched.variants] = slopes
    found = found if features is None else features.in_copies(found)
    found = found * genotypes.multiplier[:, None] / scale
    content = io.BytesIO()
    np.save(content, found.astype(np.float32), allow_pickle=False)
    files.write_atomically(path, content.getvalue())


def read_ancestry(path: Path) -> npt.NDArray[np.float32]:
    """Return what `write_ancestry` stored; a damaged or missing file is refused."""
    try:
        return np.asarray(np.load(path, allow_pickle=False), dtype=np.float32)
    except (OSError, ValueError) as error:
        remedy = "Run accumulate again, which writes it anew"
        raise InputError("is missing or damaged", where=path, remedy=remedy) from error


def exact_weights(
    variants: Index, weights: Float64, centre: Float64, counts: genotype_coding.MatchCounts
) -> tuple[MatchedWeights, Float64]:
    """Return integer weights whose sums are exact, and the unit of each score's, shape (l,).

    A missing genotype counts as the centre, at which a score is 0.
    """
    from primo_scale.evaluation.scores import MatchedWeights

    largest = 2 * np.abs(weights).sum(axis=0)
    step = np.ldexp(1.0, np.frexp(largest * _CENTRE / _EXACT)[1] + 1)
    integers, centre = weights / step, np.rint(centre * _CENTRE) / _CENTRE
    np.rint(integers, out=integers)
    return MatchedWeights(variants, integers, -(centre @ integers), centre, counts), step


def read_deployment(path: Path) -> statements.Deployment:
    """Return the custodian's words from a YAML file: a text of one line for each member."""
    import yaml  # which only such a release needs

    try:
        return files.converted(
            yaml.safe_load(path.read_text(encoding="utf-8")), statements.Deployment
        )
    except (OSError, UnicodeDecodeError, yaml.YAMLError, msgspec.ValidationError) as error:
        raise InputError(
            f"is no description of a deployment: {' '.join(str(error).split())}",
            where=path,
            remedy="Give a YAML file with curator, purpose, region and other_releases, a text of "
            "one line each",
        ) from error


def _beside(path: Path, suffixes: tuple[str, ...], remedy: str) -> Path:
    """Return the first of the files of the same prefix that exists."""
    found = [path.with_name(path.name.removesuffix(_SUFFIX) + suffix) for suffix in suffixes]
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
