"""Populations of the people of a public panel, which tell what of a score is ancestry.

A person of the cohort belongs to the population whose centroid is nearest, in the space of public
loadings: a function of one person's genotypes and of public numbers.
"""

from __future__ import annotations

from collections import Counter
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
from primo_scale.storage.files import sha256_of_file

_FEWEST = 2  # people of a population, and populations
_DIGITS = 3  # of a share, whose last bits may differ between machines


def read_populations(
    path: Path, panel: LdPanel, loadings: Loadings | None, coding: OutcomeCoding
) -> PanelPopulations:
    """Read the population of every person of a panel, and compute the centroids of each."""
    group_of = read_groups(path)
    of_people = [group_of.get(person, "") for person in panel.people]
    sizes = Counter(filter(None, of_people))
    names = sorted(sizes)
    if len(names) < _FEWEST or min(sizes.values()) < _FEWEST:
        raise InputError(
            "has too few people of the panel, by IID, in its populations",
            where=path,
            value=", ".join(f"{name} {sizes[name]}" for name in names) or "nobody",
            limit=f"at least {_FEWEST} populations of {_FEWEST} people",
            remedy="Give a table of IID and population for the people of --ld-panel",
        )
    members = np.array([names.index(each) if each else -1 for each in of_people])
    centroids = np.empty((len(names), 0))
    if loadings is not None:
        components = _components(panel, loadings)
        means = [components[members == number].mean(axis=0) for number in range(len(names))]
        codes = coding.code_covariates(np.array(means), slice(-components.shape[1], None))
        centroids = _values(codes, coding)
    populations = [
        StatedPopulation(name, sizes[name], tuple(centroid))
        for name, centroid in zip(names, centroids.tolist(), strict=True)
    ]
    source = StatedPopulations(path.name, sha256_of_file(path), tuple(populations))
    return PanelPopulations(source, panel.sha256, tuple(members.tolist()))


def groups_of(rows: Int16, design: Design) -> npt.NDArray[np.intp]:
    """Return the group of each coded row, shape (people,): the population that is nearest.

    Without populations or components all are in one.
    """
    if design.groups == 1 or design.populations is None:
        return np.zeros(len(rows), dtype=np.intp)
    centroids = np.array([each.centroid for each in design.populations.source.populations])
    stop = 1 + len(design.outcomes.covariates)
    values = _values(rows[:, stop - centroids.shape[1] : stop], design.outcomes)
    return np.asarray(((values[:, None] - centroids) ** 2).sum(axis=2).argmin(axis=1))


def open_panel(design: Design, variants: VariantTable) -> LdPanel | None:
    """Open the panel of a design with populations again; another one is refused."""
    if design.populations is None:
        return None
    panel = open_ld_panel(tuple(map(Path, design.panel_files)), variants)
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
    members = np.array(design.populations.members)
    scores = panel.scores(weights)[members >= 0]
    one = np.eye(members.max() + 1)[members[members >= 0]]  # of each person's population
    sizes, people = one.sum(axis=0), len(one)
    means = one.T @ scores / sizes[:, None]
    within = ((scores - one @ means) ** 2).sum(axis=0) / (people - len(sizes))
    freedom = len(sizes) - 1
    among = (sizes @ (means - scores.mean(axis=0)) ** 2) / freedom
    effective = (people - (sizes**2).sum() / people) / freedom
    between = np.maximum(among - within, 0) / effective
    shares = np.divide(between, between + within, out=np.zeros_like(within), where=within > 0)
    return tuple(np.round(shares, _DIGITS).tolist())


def _components(panel: LdPanel, loadings: Loadings) -> Float64:
    """Return the components of the panel's people, shape (people, k)."""
    matched, frequency = loadings.weights, panel.a1_frequencies()
    weights = np.zeros((len(frequency), matched.per_allele1.shape[1]))
    weights[matched.variants] = matched.per_allele1 * loadings.step
    # Scores are differences from the panel's mean, whose components are these.
    apart = np.nan_to_num(2 * frequency[matched.variants] - matched.centre)
    return panel.scores(weights) + apart @ weights[matched.variants]


def _values(codes: Int16, coding: OutcomeCoding) -> Float64:
    """Return the components that codes of the last covariates stand for."""
    parts = coding.covariates[-codes.shape[1] :]
    scale, centre = (np.array([getattr(p, name) for p in parts]) for name in ("scale", "centre"))
    return np.asarray(codes / scale + centre)
