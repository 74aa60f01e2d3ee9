"""Importance of variants in a public score, by which ``--extract-by-prior`` chooses some."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from primo_scale.genotypes.filters import Importance
from primo_scale.genotypes.frequencies import read_reference_frequencies
from primo_scale.genotypes.ld_panel import LdPanel, open_ld_panel
from primo_scale.genotypes.tables import Index, VariantTable
from primo_scale.methods.shrinkage import Float64
from primo_scale.run.public_inputs import read_public
from primo_scale.run.run_log import LOGGER

_VARIANTS_AT_A_TIME = 4096
_DIGITS = 9  # of a share, so that the share of all variants is 1


@dataclass(frozen=True, eq=False)
class _Scores:
    """Public scores of m variants."""

    variants: Index  # increasing positions of the m variants
    weights: Float64  # per copy of allele 1, shape (m, l)
    variance: Float64  # of each variant's part of a score, by public frequencies, shape (m, l)
    panel: LdPanel | None  # matched to the m variants

    def share_of(self, chosen: Index) -> float:
        """Return the squared correlation of the scores' parts on some variants with the scores.

        It is the mean over scores, in the people of the panel. A variant that the panel does not
        have, and every one without a panel, counts as independent of all others.
        """
        part = np.isin(self.variants, chosen)
        independent = np.full(len(part), self.panel is None)
        products = np.zeros((3, self.weights.shape[1]))  # of the part, of both, of the whole
        if self.panel is not None:
            independent = self.panel.rows < 0
            in_part, whole = np.hsplit(self._of_people(self.panel, part), 2)
            pairs = (in_part**2, in_part * whole, whole**2)
            products += [pair.mean(axis=0) for pair in pairs]
        shared = self.variance[independent & part].sum(axis=0)
        products += [shared, shared, self.variance[independent].sum(axis=0)]
        of_part, of_both, of_whole = products[:, products[2] > 0]
        squared = np.divide(of_both**2, of_part * of_whole, out=of_both * 0, where=of_part > 0)
        return round(float(squared.mean()), _DIGITS) if len(squared) else 0.0

    def _of_people(self, panel: LdPanel, part: np.ndarray) -> Float64:
        """Return the parts and the whole of all scores of the panel's people, (people, 2 l)."""
        weights = np.hstack([self.weights * part[:, None], self.weights])
        scores = np.zeros((panel.n_people, weights.shape[1]))
        for start in range(0, len(weights), _VARIANTS_AT_A_TIME):
            here, dosages = panel.centred_dosages(slice(start, start + _VARIANTS_AT_A_TIME))
            scores += dosages.T @ weights[start + here]
        return scores


def importance_by(
    path: Path, ref_freq: Path, ld_panel: tuple[Path, ...] | None
) -> Callable[[VariantTable], Importance]:
    """Return the function that ranks variants by ``weight^2 2p(1-p)`` of a public score.

    With several scores in the file, the largest importance counts, each score relative to its own
    total. p are public frequencies; a variant without a weight or a frequency has importance 0. A
    public panel tells how much of the scores some variants explain, by LD.
    """
    from primo_scale.evaluation.scores import match_weights  # loads pandas

    def importance(variants: VariantTable) -> Importance:
        """Return the importance of each variant."""
        file = read_public(path, None)
        matched = match_weights(file, variants, may_be_wider=True)
        LOGGER.info("--extract-by-prior %s: %s", path, matched.counts.in_words())
        its = variants.select(matched.variants)
        frequency = read_reference_frequencies(ref_freq, its).a1_frequency
        heterozygosity = np.nan_to_num(2 * frequency * (1 - frequency))
        variance = matched.per_allele1**2 * heterozygosity[:, None]
        total = variance.sum(axis=0)
        share = np.divide(variance, total, out=np.zeros_like(variance), where=total > 0)
        values = np.zeros(len(variants))
        values[matched.variants] = share.max(axis=1)
        panel = None if ld_panel is None else open_ld_panel(ld_panel, its)
        scores = _Scores(matched.variants, matched.per_allele1, variance, panel)
        return Importance(values, scores.share_of)

    return importance
