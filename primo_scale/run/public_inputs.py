"""Public inputs of a run: bounds, frequencies, the LD panel with its populations, public scores.

Everything here is read from public files and matched to the variants of a cohort. The readers of
scores are imported by the functions that need them, so that a run without scores is quick to start.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from primo_scale.errors import InputError, UsageError
from primo_scale.genotypes.coding import (
    MOST_MATCHED,
    MatchedFrequencies,
    read_reference_frequencies,
    refuse_few_matches,
)
from primo_scale.genotypes.store import HARD_CALLS, GenotypeStore
from primo_scale.genotypes.tables import NOT_REPORTED, VariantTable
from primo_scale.methods.effects import PublicScores
from primo_scale.methods.linear_algebra import Float64
from primo_scale.outcomes.coding import (
    ADJUSTED_UNIT,
    LARGEST_UNIT,
    CovariateBounds,
    Int16,
    OutcomeCoding,
    PhenotypeBounds,
    code_outcomes,
    read_covariate_bounds,
    read_phenotype_bounds,
)
from primo_scale.outcomes.tables import open_outcome_table, read_groups
from primo_scale.panel.ld import LdPanel, fixation_index, open_ld_panel
from primo_scale.run.design import Design, PanelDesign, PanelPopulations, PublicPanels
from primo_scale.run.fields import one_line
from primo_scale.run.principal_components import Loadings, read_loadings
from primo_scale.run.request import Model, OutcomeTables, PriorFile, Privacy
from primo_scale.run.run_log import LOGGER
from primo_scale.storage.files import sha256_of_file
from primo_scale.verify.document import StatedPopulation, StatedPopulations, StatedScore

if TYPE_CHECKING:
    from primo_scale.evaluation.scores import ScoringFile

_PRIOR = "--prior-weights"
_LEAST_CALLED = 0.95  # share of the cohort's genotypes of a variant that are usually called
# F_ST is about .01 between Finns and Tuscans of the 1000 Genomes Project, .03 between Europeans and
# Gujaratis, and .05 between Europeans and Africans, of the thinned HapMap3 data in tests/reference.
_LARGEST_INDEX, _EXAMPLES = 0.02, 3
_TELLING = 0.1  # distance of a frequency from a half that tells which allele is counted

# ---- Bounds and panels ---------------------------------------------------------------------------


def phenotype_bounds(tables: OutcomeTables) -> tuple[PhenotypeBounds, ...]:
    """Return the public bounds of the requested phenotypes; reads only headers and bounds."""
    # Names are checked before the bounds, which lack a mistyped name too.
    names = open_outcome_table(tables.pheno).matching(tables.pheno_name)
    return read_phenotype_bounds(_given(tables.pheno_bounds), names)


def outcome_coding(
    tables: OutcomeTables, privacy: Privacy, store: GenotypeStore
) -> tuple[OutcomeCoding, Loadings | None]:
    """Return the public coding of phenotypes and covariates, and the loadings of components."""
    loadings = None
    if tables.pc_loadings is not None:
        loadings = read_loadings(tables.pc_loadings, tables.covar_bounds, store)
    phenotypes = phenotype_bounds(tables)
    covariates: tuple[CovariateBounds, ...] = ()
    if tables.covar is not None:
        columns = open_outcome_table(tables.covar).matching(tables.covar_name)
        covariates = read_covariate_bounds(_given(tables.covar_bounds), columns)
    if loadings is not None:
        covariates += loadings.bounds
    unit = LARGEST_UNIT if privacy.non_private else ADJUSTED_UNIT
    return code_outcomes(phenotypes, covariates, largest_unit=unit), loadings


def _given(path: Path | None) -> Path:
    if path is None:
        raise ValueError("OutcomeTables refuses a table without bounds")
    return path


def read_panels(
    model: Model,
    store: GenotypeStore,
    coding: OutcomeCoding,
    loadings: Loadings | None,
    *,
    private: bool,
    settled: PanelDesign | None,
) -> PublicPanels:
    """Read the public panels of a model, and warn of what costs accuracy."""
    frequencies, ld = _matched_frequencies(model, store), None
    if model.ld_panel is not None:
        ld = open_ld_panel(model.ld_panel, store.variants)
        store.samples.refuse_shared_people(ld.people, ld.name)
        LOGGER.info(
            "--ld-panel: %d people; %d of %d variants matched (%d with alleles swapped)",
            ld.n_people, ld.n_matched, store.n_variants, ld.swapped.sum(),
        )  # fmt: skip
        _warn_of_few_matches("--ld-panel", ld.n_matched, store)
    populations = _read_populations(model.panel_populations, ld, loadings, coding)
    if frequencies is not None and private:
        _warn_of_own_frequencies(frequencies, store)
    if frequencies is not None and ld is not None:
        warn_of_other_population(ld, frequencies, store.variants)
    return PublicPanels(frequencies, ld, settled, loadings, populations)


def _matched_frequencies(model: Model, store: GenotypeStore) -> MatchedFrequencies | None:
    """Return the frequencies of the reference panel, if there is one, and log how they match."""
    if model.ref_freq is None:
        if store.packing is not HARD_CALLS:
            raise UsageError(
                "dosages need the allele frequencies of a public panel: without them, codes are "
                "-1, 0 and 1",
                where=str(store.path),
                remedy="Give --ref-freq, or ingest hard calls (without --dosages)",
            )
        return None
    matched = read_reference_frequencies(model.ref_freq, store.variants)
    LOGGER.info("--ref-freq: %s", matched.counts.in_words())
    refuse_few_matches(matched)
    _warn_of_few_matches("--ref-freq", matched.counts.matched, store)
    return matched


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


def warn_of_other_population(
    panel: LdPanel, frequencies: MatchedFrequencies, variants: VariantTable
) -> None:
    """Warn if the LD panel and the allele frequencies are of different populations."""
    of_panel = panel.a1_frequencies()
    index = fixation_index(of_panel, panel.n_people, frequencies.a1_frequency)
    if index <= _LARGEST_INDEX:
        return
    gaps = np.nan_to_num(np.abs(of_panel - frequencies.a1_frequency))
    examples = (
        f"{variants.identifier[row]} ({of_panel[row]:.2f} and {frequencies.a1_frequency[row]:.2f})"
        for row in np.argsort(-gaps)[:_EXAMPLES]
    )
    LOGGER.warning(
        "--ld-panel and --ref-freq are of different populations: F_ST is %.3f, and below %g within "
        "a continent; frequencies differ most at %s. Give both for the population of the cohort, "
        "or the release is less accurate (docs/methods.md); its guarantee is the same",
        index, _LARGEST_INDEX, ", ".join(examples),
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
    populations = tuple(map(StatedPopulation, names.tolist(), sizes.tolist(), means_of))
    prefixes = tuple(str(prefix.resolve()) for prefix in panel.prefixes)
    source = StatedPopulations(path.name, sha256_of_file(path), populations)
    if loadings is not None and not loadings.people.isdisjoint(panel.people):
        LOGGER.warning(
            "--panel-populations: how much of a score is ancestry is not stated: loadings are of "
            "the people of --ld-panel, in whom scores show none. Give an --ld-panel of other people"
        )
        members = members[:0]
    return PanelPopulations(source, panel.sha256, prefixes, tuple(members.tolist()))


def groups_of(rows: Int16, design: Design) -> npt.NDArray[np.intp]:
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


@dataclass(frozen=True, eq=False)
class PriorScores:
    """Public scores and their origins, in the same order."""

    scores: PublicScores
    sources: tuple[StatedScore, ...]  # whose slopes are still to be estimated

    @property
    def sha256(self) -> str:
        """Digest of the effects, and of the phenotypes that each score is a prior of."""
        digest = hashlib.sha256(np.ascontiguousarray(self.scores.effects, "<f8").tobytes())
        digest.update(self.scores.used.tobytes())
        return digest.hexdigest()


def read_prior_scores(
    files: Iterable[PriorFile], variants: VariantTable, design: Design, build: str
) -> PriorScores | None:
    """Read the public scores of a release and log how they match, or return None without files."""
    phenotypes = [p.name for p in design.outcomes.phenotypes]
    columns = [
        column for file in files for column in _read_columns(file, variants, phenotypes, build)
    ]
    if not columns:
        return None
    multiplier = design.genotypes.multiplier.astype(np.float64)
    columns_of, named, sources = zip(*columns, strict=True)
    effects = np.stack(columns_of, axis=1) / multiplier[:, None]
    used = np.array([[each in (None, name) for name in phenotypes] for each in named], np.bool_)
    return PriorScores(PublicScores(effects, used), sources)


def _read_columns(
    file: PriorFile, variants: VariantTable, phenotypes: list[str], build: str
) -> Iterator[tuple[Float64, str | None, StatedScore]]:
    """Yield effects per copy, the phenotype (None for every one) and the source of each score."""
    from primo_scale.evaluation.scores import match_weights

    if file.phenotype is not None and file.phenotype not in phenotypes:
        raise UsageError(
            "the release has no such phenotype",
            where=_PRIOR,
            value=file.phenotype,
            limit=", ".join(phenotypes)[:80],
        )
    read = read_public(file.path, [file.phenotype] if file.phenotype else phenotypes)
    _check_build(read, build)
    matched = match_weights(read, variants, may_be_wider=True)
    LOGGER.info("%s %s: %s", _PRIOR, file.path, matched.counts.in_words())
    sha256, counts = sha256_of_file(read.weights_path), matched.counts
    pgs_id = None if read.pgs_id is None else one_line(read.pgs_id)
    file_name = one_line(file.path.resolve().name)
    source = StatedScore(file_name, sha256, pgs_id, counts.total, counts.matched, ())
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


def _check_build(file: ScoringFile, build: str) -> None:
    """Refuse a score whose positions are of another genome build, if it is matched by position."""
    if not file.by_position:
        return
    if file.build in (None, NOT_REPORTED) or build == NOT_REPORTED:
        LOGGER.warning(
            "%s %s is matched by position, and the genome build of the file or of the genotypes "
            "is not known: give --genome-build, and check that they are the same",
            _PRIOR, file.path,
        )  # fmt: skip
    elif file.build != build:
        raise InputError(
            f"positions are in {file.build}, those of the genotypes in {build}",
            where=file.path,
            remedy="Give a file with rsID, or one lifted to the genotypes' genome build",
        )
