"""Share of public scores that some variants explain, compared with people of the panel."""

from dataclasses import replace

import numpy as np
import pytest
from bed_reader import open_bed
from support.command_io import PANEL

from primo_scale.genotypes.tables import read_bim
from primo_scale.run.ingest_stage import importance_by

D = 40
CHOSEN = np.arange(0, D, 3)
FREQUENCIES = PANEL.with_suffix(".afreq")


@pytest.fixture(scope="module")
def panel():
    variants = read_bim(PANEL.with_suffix(".bim")).select(np.arange(D))
    with open_bed(f"{PANEL}.bed", count_A1=True) as bed:
        copies = bed.read(np.s_[:, :D], dtype="float64")
    mean = np.nanmean(copies, axis=0)
    return variants, np.where(np.isnan(copies), mean, copies) - mean


def written_scores(path, variants, weights):
    """Write scores in columns; the second allele is the effect allele of every second variant."""
    rows = ["ID\teffect_allele\tother_allele\tchrom\tpos\tepsilon=1\tone\ttwo"]
    for i, pair in enumerate(weights):
        alleles = variants.allele1[i], variants.allele2[i]
        swapped = i % 2
        values = "\t".join(repr(float(-w if swapped else w)) for w in pair)
        ordered = alleles[:: -1 if swapped else 1]
        rows.append("\t".join([variants.identifier[i], *ordered, "22", "1", ".", values]))
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.mark.parametrize("n_absent", [0, 12])
def test_the_share_is_the_squared_correlation_in_the_panel(tmp_path, panel, n_absent):
    variants, copies = panel
    weights = np.random.default_rng(1).normal(size=(D, 2))
    absent = np.arange(D) < n_absent  # at positions that the panel does not have
    path = written_scores(tmp_path / "scores.tsv", variants, weights)
    moved = replace(variants, position=variants.position + absent)
    _, share_of = importance_by(path, FREQUENCIES, (PANEL,))(moved)
    shares, p = [], public_frequencies()
    for w in weights.T:
        alone = np.where(absent, w**2 * 2 * p * (1 - p), 0)
        here = np.where(absent, 0, w)
        part = np.isin(np.arange(D), CHOSEN)
        covariance = np.cov([copies @ (here * part), copies @ here], bias=True)
        covariance += [[alone[part].sum()] * 2, [alone[part].sum(), alone.sum()]]
        shares.append(covariance[0, 1] ** 2 / covariance[0, 0] / covariance[1, 1])
    assert share_of(CHOSEN) == pytest.approx(np.mean(shares), rel=1e-4)
    assert share_of(np.arange(D)) == 1
    assert share_of(np.arange(0)) == 0


def public_frequencies():
    lines = FREQUENCIES.read_text().splitlines()[1 : D + 1]
    return np.array([float(line.split("\t")[4]) for line in lines])
