"""Scores of the people held out by the weights of a release."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from primo_scale.evaluation.scores import MatchedWeights, people_of_store, score_people
from primo_scale.genotypes.frequencies import MatchCounts
from primo_scale.genotypes.store import GenotypeStore
from primo_scale.outcomes.coding import OutcomeCoding
from primo_scale.outcomes.store import OutcomeStore
from primo_scale.privacy.held_out_sums import (
    ScoredBatch,
    ScoredPeople,
    residual_bounds,
    residual_limits,
)
from primo_scale.privacy.planning import Floats
from primo_scale.publication.weights import ScoringWeights
from primo_scale.run.design import Design
from primo_scale.run.progress import count_bar
from primo_scale.run.public_inputs import groups_of
from primo_scale.storage.files import disk_errors_explained

_PEOPLE_PER_BATCH = 256  # which bounds the memory of sums over many phenotypes


def score_held_out(
    store: GenotypeStore,
    outcomes: OutcomeStore,
    design: Design,
    weights: ScoringWeights,
    explained: Floats,
    scratch: Path,
) -> ScoredPeople:
    """Return the scores and residuals of the people held out, from a file without a name. PRIVATE.

    `explained` is what a unit of each covariate explains of the scores, shape (c, l), which is
    subtracted. Memory is that of the weights, one chunk of genotypes and the people held out in it.
    """
    coding = design.outcomes
    people = _ScratchPeople(scratch, len(coding.phenotypes))
    matched = _matched(weights, coding)
    starts = range(0, store.n_samples, store.chunk_shape[1])
    with count_bar("score people held out", "chunks") as move:
        for number, start in enumerate(starts, start=1):
            samples = slice(start, min(start + store.chunk_shape[1], store.n_samples))
            positions = np.flatnonzero(outcomes.held_out(samples))
            if not len(positions):
                continue
            scores = score_people(people_of_store(store, samples, positions), matched)
            rows = outcomes.read_held_out(samples)
            fixed = 1 + len(coding.covariates)
            covariates = rows[:, 1:fixed] / np.array([c.scale for c in coding.covariates])
            sd = np.array([p.sd for p in coding.phenotypes])
            # Residuals in the store are those of the effects of an adjustment.
            others = weights.covariate_weights + explained - coding.covariate_weights
            people.write(
                scores - covariates @ explained,
                rows[:, fixed:] * (sd / coding.unit) - covariates @ others,
                rows[:, fixed:] != 0,
                groups_of(rows, design),
            )
            move(number, len(starts))
    phenotypes = coding.phenotypes
    limits = residual_limits(phenotypes)
    return ScoredPeople(
        residual_bounds(phenotypes), limits, people.batches, max(1, len(design.groups))
    )


class _ScratchPeople:
    """Temporary table of scored people; the file has no name, so that nothing remains of it."""

    def __init__(self, directory: Path, n_phenotypes: int) -> None:
        shape = (n_phenotypes,)
        parts = [("scores", np.float64, shape), ("residuals", np.float64, shape)]
        self._row = np.dtype([*parts, ("observed", np.bool_, shape), ("group", np.intp)])
        with disk_errors_explained(directory):
            self._file = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115
        weakref.finalize(self, self._file.close)

    def write(self, *columns: npt.NDArray[Any]) -> None:
        """Append people: scores, residuals, who is observed, and groups."""
        rows = np.empty(len(columns[0]), dtype=self._row)
        for name, values in zip(self._row.fields or (), columns, strict=True):
            rows[name] = values
        self._file.write(rows.tobytes())

    def batches(self) -> Iterator[ScoredBatch]:
        """Yield all people."""
        self._file.seek(0)
        while content := self._file.read(_PEOPLE_PER_BATCH * self._row.itemsize):
            rows = np.frombuffer(content, dtype=self._row)
            yield rows["scores"], rows["residuals"], rows["observed"], rows["group"]


def _matched(weights: ScoringWeights, coding: OutcomeCoding) -> MatchedWeights:
    """Return the weights of every variant of the store."""
    if not np.isfinite(weights.centre_dosage).all():
        # It would be replaced by the mean of the people, and a score is a function of one person.
        raise ValueError("a missing genotype has no public dosage")
    n_variants = len(weights.centre_dosage)
    return MatchedWeights(
        np.arange(n_variants),
        weights.per_allele,
        _score_offset(coding, weights),
        weights.centre_dosage,
        MatchCounts(n_variants, n_variants),
    )


def _score_offset(coding: OutcomeCoding, weights: ScoringWeights) -> Floats:
    """Return the score without copies of allele 1: the prediction at the centres, less the mean."""
    centre = np.array([c.centre for c in coding.covariates], dtype=np.float64)
    return np.asarray(weights.intercept + centre @ weights.covariate_weights - coding.means)
