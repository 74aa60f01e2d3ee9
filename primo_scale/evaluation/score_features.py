"""Public scores that take the place of the variants of a cohort, and the way back to its variants.

A store of dosages holds the scores in the place of variants. One standard deviation of a score is
16 of the 127 steps that a copy of an allele has. Weights of scores are folded back into weights of
the variants (docs/maths/weights.md, "Score features").
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from primo_scale.evaluation.scores import MatchedWeights
from primo_scale.genotypes import filters, store, tables
from primo_scale.genotypes.coding import LARGEST_CODE, REFERENCE_UNIT, GenotypeCoding
from primo_scale.kernels.products import Float64
from primo_scale.machine import n_threads
from primo_scale.methods.solve import PRIVATE_DIGITS, round_in_place
from primo_scale.publication.weights import ScoringWeights
from primo_scale.verify.document import StatedFeature

COPIES_OF_SD = REFERENCE_UNIT / LARGEST_CODE


@dataclass(frozen=True, eq=False)
class ScoreFeatures(store.GenotypeStore):
    """Map from the genotypes of a store to K scores of its people, which take their place."""

    coding: GenotypeCoding
    stated: tuple[StatedFeature, ...]
    table: tables.VariantTable  # of the m variants that have a weight
    weights: MatchedWeights  # copies of a score for each copy of allele 1, in units of `step`
    step: Float64  # of each score, shape (K,)
    centre: Float64  # dosage of allele 1 of each variant that adds nothing, shape (m,)
    source: store.GenotypeStore

    @cached_property
    def samples(self) -> tables.SampleTable:
        """People of the genotypes."""
        return self.source.samples

    @cached_property
    def variants(self) -> tables.VariantTable:
        """Scores in the form of variants."""
        return as_variants(len(self.stated))

    @property
    def people_file(self) -> str:
        """File of the genotypes that lists the people."""
        return self.source.people_file

    @cached_property
    def filter_counts(self) -> tuple[filters.FilterCount, ...]:
        """Effects of the filters of the genotypes."""
        return self.source.filter_counts

    def needed_bytes(self, n_phenotypes: int) -> int:
        """Return the memory of the map, of some scores, and of the folded weights of a release."""
        m, k = len(self.table), self.n_variants
        scores = n_threads() * self.chunk_shape[1] * k  # of the chunks that are written
        return 24 * (m * (k + n_phenotypes) + scores)

    def in_copies(self, per_copy: Float64) -> Float64:
        """Return copies of each score, shape (K, k), of values of a copy of every variant."""
        scores = self.weights.per_allele1.T @ per_copy[self.weights.variants]
        copies: Float64 = self.step[:, None] * scores
        return copies

    def folded(self, stack: ScoringWeights, *, private: bool) -> ScoringWeights:
        """Return the weights of variants that give the prediction of weights of scores."""
        per_allele = self.weights.per_allele1 @ (self.step[:, None] * stack.per_allele)
        if private:
            round_in_place(per_allele, PRIVATE_DIGITS)
        intercept = stack.intercept + stack.per_allele.sum(axis=0) - self.centre @ per_allele
        return replace(
            stack,
            variants=self.table,
            per_allele=per_allele,
            intercept=intercept,
            centre_dosage=self.centre,
            stack=stack.per_allele * COPIES_OF_SD,
        )


def as_variants(k: int) -> tables.VariantTable:
    """Return K scores in the form of variants."""
    names = [f"score{number}" for number in range(1, k + 1)]
    return tables.VariantTable.of(["1"] * k, names, range(1, k + 1), ["A"] * k, ["C"] * k)
