"""Names of principal components."""

import pytest

from primo_scale.outcomes.coding import has_components

COMPONENTS = [
    "PC1", "pc1", "PC_1", "PC01", "PC.10", "PCA1", "pca_2", "PC1_AVG", "PC1_SUM", "gPC1", "x PC-3",
    "genetic_pc4", "22009-0.1", "p22009_a1", "f.22009.0.1",
]  # fmt: skip
OTHERS = ["AGE", "PC", "NPC1", "PCSK9", "PCR", "spc1", "PC1x", "array1", "220090", "U1", "sex"]


@pytest.mark.parametrize("name", [*COMPONENTS, *OTHERS])
def test_names_of_components(name):
    assert has_components(["AGE", name]) is (name in COMPONENTS)
