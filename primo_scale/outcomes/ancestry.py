"""Ancestry: whether the covariates can account for it, by their public names, and its groups."""

from __future__ import annotations

import re
from collections.abc import Iterable

# PC1, pc_01, PCA.2, PC1_AVG, gPC10 and UK Biobank's field 22009, but not NPC1 or PCSK9.
_COMPONENT = re.compile(
    r"((?<![A-Za-z])(?i:pca?)|(?<![A-Z])PCA?)[ ._-]?\d+(?![A-Za-z0-9])|(?<!\d)22009(?!\d)"
)

NO_COMPONENTS = (
    "No covariate is named as a principal component (such as PC1, PC_1 or PC01). Differences "
    "between the populations or families in the cohort can then enter the weights of every LD "
    "block. The scores may predict ancestry besides the phenotype, and be wrong in scale and in "
    "sign for other people."
)
"""What the absence of principal components does to the scores."""

COMPONENTS_REMEDY = (
    "Give the loadings of a public panel with --pc-loadings, which projects every person. "
    "Components computed from the cohort itself are not covered by the guarantee."
)
"""How to add components without a breach of the guarantee."""


def has_components(covariates: Iterable[str]) -> bool:
    """Return whether one of the covariates' names is that of a principal component."""
    return any(_COMPONENT.search(name) for name in covariates)
