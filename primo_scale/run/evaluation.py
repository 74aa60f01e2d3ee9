"""Evaluation of scores in people who consented, from a request to a directory of results."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from primo_scale.errors import InputError, UsageError
from primo_scale.evaluation import accuracy
from primo_scale.evaluation import scores as scoring
from primo_scale.genotypes import coding, store, tables
from primo_scale.outcomes.coding import MISSING_NUMBER, ONE_TWO, ZERO_ONE
from primo_scale.outcomes.tables import match_people, open_outcome_table, read_groups
from primo_scale.publication.texts import cautions_in_words
from primo_scale.run import fields, options, public_inputs, run_log
from primo_scale.storage.files import directory_published_at_end, files_private, refuse_existing
from primo_scale.verify import formats, words
from primo_scale.verify.held_out_accuracy import EVERYBODY, NARROW, NORMAL_QUANTILE, WITHIN_GROUPS
from primo_scale.version import __version__

EVALUATION_FILE, TABLE_FILE = "evaluation.json", "evaluation.tsv"
_COLUMNS = (
    *("weights", "phenotype", "group", "n", "r", "r_lower", "r_upper"),
    *("r2", "r2_lower", "r2_upper"),
    *("incremental_r2", "incremental_r2_lower", "incremental_r2_upper"),
    *("partial_r2", "partial_r2_lower", "partial_r2_upper", "partial_slope", "partial_slope_se"),
    *("slope", "slope_se", "intercept", "intercept_se", "n_cases", "auc", "auc_lower"),
    *("auc_upper", "liability_r2", "liability_r2_lower", "liability_r2_upper"),
)
_LEVELS = r"^measures_|_value$"
_Columns = dict[str, accuracy.Floats]
_Codes = dict[str, tuple[float, float]]  # of controls and cases of phenotypes known to be binary


@dataclass(frozen=True)
class ScoreResult:
    """Accuracy of a score for a phenotype in a group of people."""

    weights: str  # path of the weights
    phenotype: str
    group: str  # ``all`` for everybody, ``within groups`` for all groups together
    measures: accuracy.Measures  # numbers with their intervals

    @property
    def is_told(self) -> bool:
        """Whether it is of several groups, or its interval of R^2 says something."""
        r2 = (self.measures.partial or self.measures).r2
        together = self.group in (WITHIN_GROUPS, EVERYBODY)
        return together or r2.lower > 0 or r2.upper - r2.lower < NARROW

    def __str__(self) -> str:
        own, partial = self.measures, self.measures.partial
        shown = partial or own
        half = NORMAL_QUANTILE * shown.slope_se
        return (
            f"{self.weights}: {self.phenotype}, {self.group}, n = {own.n}: "
            f"{'' if partial is None else 'beyond covariates '}r {shown.r.value:.3f}, "
            f"R^2 {_in_words(shown.r2)}, slope {shown.slope:.3g} "
            f"({shown.slope - half:.3g} to {shown.slope + half:.3g})"
            f"{'' if partial is None else f'; not adjusted R^2 {_in_words(own.r2)}'}"
        )


def _in_words(r2: accuracy.Estimate) -> str:
    return f"{r2.value:.4f} ({r2.lower:.4f} to {r2.upper:.4f})"


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Accuracy of several scores in the same people. It is not private.

    Attributes
    ----------
    stamp : str
        Statement that the results are not private, with the people they were computed from.
    variants : dict of str to MatchCounts
        Numbers of matched variants by path of the weights.
    results : tuple of ScoreResult
        Accuracy of each score.
    """

    stamp: str
    variants: Mapping[str, coding.MatchCounts]
    results: tuple[ScoreResult, ...]

    def __repr__(self) -> str:
        told = [result for result in self.results if result.is_told]
        lines = [self.stamp, *map(str, told)]
        if len(told) < len(self.results):
            lines.append(
                f"{len(self.results) - len(told)} results of single groups are in the files alone: "
                f"their intervals of R^2 contain 0 and are wider than {NARROW:g}"
            )
        return "\n".join(lines)


@fields.takes(options.EvaluationRequest)
def evaluate(request: options.EvaluationRequest) -> Evaluation:
    """Measure how well scores predict phenotypes, and write the results.

    The results are computed from individual data without noise: the people have consented, are
    public, or are simulated.

    Returns
    -------
    Evaluation
        Accuracy of each score for its phenotype in each group, as in the files at `out`.

    Raises
    ------
    InputError
        A file is malformed, a release fails its verification, the genotypes have less than 10% of
        the variants of a score, or no score has a result.
    UsageError
        A prevalence is given for an unknown or a quantitative phenotype.
    """
    refuse_existing(request.out)
    if request.genotypes is not None:
        genotypes = scoring.people_of_store(store.open_genotype_store(request.genotypes))
        source = str(request.genotypes)
    else:
        sources = request.sources
        genotypes, source = scoring.open_files(sources), ", ".join(map(str, sources.paths))
    stamp = f"{words.NOT_PRIVATE}: computed from the people of {source}, who must have consented"
    samples = genotypes.samples
    groups = {EVERYBODY: np.ones(len(samples), dtype=np.int64)}
    if request.groups is not None:
        own = _read_groups(request.groups, samples)
        together = sum(number * mask for number, mask in enumerate(own.values(), 1))
        groups = {WITHIN_GROUPS: np.asarray(together), **groups, **own}
    phenotypes = _read_columns(request.pheno, request.pheno_name, samples)
    unknown = sorted(request.prevalence.keys() - phenotypes.keys())
    if unknown:
        raise UsageError(
            "names no phenotype",
            where="--prevalence",
            value=unknown[0],
            limit=", ".join(phenotypes),
        )
    covariates = {}
    if request.covar is not None:
        covariates = _read_columns(request.covar, request.covar_name, samples)
    files = [scoring.read_scoring_file(path, tuple(phenotypes)) for path in request.weights]
    codes = _take_codes(phenotypes, files, request.prevalence)
    if request.pc_loadings is not None:
        components = public_inputs.components_of(request.pc_loadings, genotypes)
        twice = sorted(components.keys() & covariates.keys())
        if twice:
            raise InputError(
                "the covariates have components of the loadings",
                where=request.pc_loadings,
                value=", ".join(twice),
                remedy="Leave these columns out by --covar-name",
            )
        covariates |= components
    columns = np.hstack(
        [np.empty((len(samples), 0)), *(values[:, None] for values in covariates.values())]
    )
    known = ~np.isnan(columns).any(axis=1)
    variants: dict[str, coding.MatchCounts] = {}
    results: list[ScoreResult] = []
    unmeasured: list[str] = []
    for file in files:
        matched, measured = scoring.match_weights(file, genotypes.variants), list[ScoreResult]()
        run_log.LOGGER.info("%s: %s", file.path, matched.counts.in_words())
        variants[str(file.path)] = matched.counts
        scores = scoring.score_people(genotypes, matched)
        for predicted, score in zip(file.phenotypes, scores.T, strict=True):
            # A score of no known phenotype is tried with all.
            for name in phenotypes if predicted is None else (predicted,):
                offset = _offset(file, name, phenotypes[name], covariates, codes)
                sample = accuracy.Sample(phenotypes[name], score, columns, offset)
                complete = ~np.isnan(sample.phenotype) & known
                for group, members in groups.items():
                    taken = complete & (members > 0)
                    selected = sample.select(taken)
                    reason = accuracy.why_unmeasured(selected)
                    if reason is None:
                        selected = selected.within(members[taken])
                        reason = accuracy.why_unmeasured(selected)
                    if reason is None:
                        measures = accuracy.measure(selected, request.prevalence.get(name))
                        measured.append(ScoreResult(str(file.path), name, group, measures))
                    else:
                        unmeasured.append(f"{name} in group {group}: {reason}")
                        run_log.LOGGER.warning("%s: no result for %s", file.path, unmeasured[-1])
        for caution in cautions_in_words(_slope(file, result) for result in measured):
            run_log.LOGGER.warning("%s: %s", file.path, caution)
        results += measured
    if not results:
        raise InputError(
            f"no score has a result; {unmeasured[0]}",
            where=request.pheno,
            remedy=f"Give at least {accuracy.LEAST_PEOPLE} people whose phenotypes and scores vary",
        )
    evaluation = Evaluation(stamp, variants, tuple(results))
    with files_private(), directory_published_at_end(request.out) as staging:
        _write_results(staging, evaluation)
    return evaluation


def _offset(
    file: scoring.ScoringFile,
    name: str,
    values: accuracy.Floats,
    covariates: _Columns,
    codes: _Codes,
) -> accuracy.Floats | None:
    """Return the part of a release's prediction of a phenotype that is not the score, or None."""
    if file.release is None:
        return None
    table = file.release.covariates[name].astype(float)
    if not {*table.index} <= {formats.INTERCEPT, *covariates}:
        return None
    offset = np.full_like(values, table[formats.INTERCEPT])
    for covariate, column in covariates.items():
        offset += table.get(covariate, 0.0) * column
    if name in file.codes:  # the release's codes, which may be others than the table's
        offset += codes[name][0] - file.codes[name][0]
    return offset


def _write_results(directory: Path, evaluation: Evaluation) -> None:
    """Write evaluation.json and evaluation.tsv, both with the stamp."""
    content = {**asdict(evaluation), "software": f"primo-scale {__version__}"}
    (directory / EVALUATION_FILE).write_text(json.dumps(content, indent=2, allow_nan=False) + "\n")
    # A measure that only some results have is also a column of its own without values.
    table = pd.json_normalize(content["results"], sep="_").dropna(axis="columns", how="all")
    table.columns = table.columns.str.replace(_LEVELS, "", regex=True)
    with (directory / TABLE_FILE).open("w", encoding="utf-8") as file:
        file.write(f"##{evaluation.stamp}\n")
        table = table.reindex(columns=_COLUMNS)
        table.to_csv(file, sep="\t", index=False, na_rep="NA", float_format="%.9g")


def _slope(file: scoring.ScoringFile, result: ScoreResult) -> tuple[str, float, float, float, bool]:
    """Return the slope of a result; that of a score in units of its own tells nothing."""
    shown = result.measures.partial or result.measures
    half = NORMAL_QUANTILE * shown.slope_se if file.release is not None else np.inf
    auc = None if result.measures.partial else result.measures.auc
    return (
        result.phenotype + ("" if result.group == EVERYBODY else f" ({result.group})"),
        shown.slope,
        shown.slope - half,
        shown.slope + half,
        shown.r.upper < 0 or (auc is not None and auc.upper < 0.5),
    )


def _read_columns(path: Path, given: Sequence[str] | None, samples: tables.SampleTable) -> _Columns:
    """Return columns of a table, nan where a person has no row or the value is missing."""
    table = open_outcome_table(path)
    names = table.matching(given)
    values = np.full((len(samples), len(names)), np.nan)
    for people, matched in match_people(table, names, samples):
        values[people] = matched
    values[values == MISSING_NUMBER] = np.nan
    return dict(zip(names, values.T, strict=True))


def _read_groups(path: Path, samples: tables.SampleTable) -> dict[str, npt.NDArray[np.int64]]:
    """Return the people of each group of a table of IID and group: 1, and 0 for all others."""
    group_of = read_groups(path)
    of_people = np.array([group_of.get(person, "") for person in samples.individual])
    names = sorted({*of_people.tolist()} - {""})
    if not names:
        raise InputError("no person of this file is in the genotypes, by IID", where=path)
    return {name: np.asarray(of_people == name, np.int64) for name in names}


def _take_codes(
    phenotypes: _Columns, files: Sequence[scoring.ScoringFile], prevalence: Collection[str]
) -> _Codes:
    """Make values missing that are no code of a binary phenotype, and return the codes.

    Releases and prevalences say which phenotypes are binary. As in plink, one with the value 2 has
    the codes 1 and 2.
    """
    by_release = {name for file in files for name in file.codes}
    codes = {}
    for name, values in phenotypes.items():
        present = {*values[~np.isnan(values)].tolist()}
        if name not in by_release.union(prevalence):
            if present == {0.0, *ONE_TWO}:
                run_log.LOGGER.warning(
                    "%s has the values 0, 1 and 2, and is taken as quantitative. If these stand "
                    "for a missing value, a control and a case, give --prevalence %s=K", name, name,
                )  # fmt: skip
            continue
        own = ONE_TWO if ONE_TWO[1] in present else ZERO_ONE
        found = present if own == ZERO_ONE else present - {0.0}
        if name not in by_release and len(found) > len(ZERO_ONE):
            raise UsageError(
                "is not binary, and has no prevalence",
                where=f"--prevalence {name}",
                value=f"{len(found)} values",
                limit="2 values, of cases and controls",
                remedy="Leave it out, or name the column of a binary phenotype",
            )
        if name in by_release or own == ONE_TWO:
            codes[name] = own
            values[~np.isin(values, own)] = np.nan
    return codes
