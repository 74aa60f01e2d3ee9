"""Populations of the people of a public panel, which tell what of a score is ancestry.

A person of the cohort belongs to the population whose centroid is nearest, in the space of public
loadings: a function of one person's genotypes and of public numbers.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from primo_scale.errors import InputError
from primo_scale.genotypes.ld_panel import LdPanel, open_ld_panel
from primo_scale.genotypes.tables import VariantTable
from primo_scale.outcomes.coding import Int16, OutcomeCoding
from primo_scale.outcomes.tables import read_groups
from primo_scale.publication.statement import StatedPopulation, StatedPopulations
from primo_scale.run.design import Design, PanelPopulations
from primo_scale.run.principal_components import Float64, Loadings
from primo_scale.run.run_log import LOGGER
from primo_scale.storage.files import sha256_of_file


def read_populations(
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
