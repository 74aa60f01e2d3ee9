"""Exact statistics of real cohorts, compared with integer sums of the files."""

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zarr
from support.acceptance_inputs import (
    GENOTYPE_UNIT,
    Int64,
    RealSet,
    blocks,
    clipped_blocks,
    coded,
    norms,
    public_coding,
    ratios,
    read_table,
    scaled,
)
from support.tiers import thinned

EPSILON, DELTA = 2, 1e-6


# Data set, number of people left out, number of variants, LD blocks, and further options. n mod 4
# is 1, 3, 2 and 0, so that the last byte of packed genotypes is full in only one case.
CASES = {
    "hapmap3": ("hapmap3", 0, 900, "window:130", ()),
    "label": ("hapmap3", 1, 200, "window:60", ("--privacy", "label")),
    "feature": ("1000g", 0, 300, "window:50", ("--privacy", "feature")),
    "add-remove": (
        "regenie", 3, 150, "window:40", ("--adjacency", "add-remove", "--nominal-n", "1000")
    ),
    "regenie": ("regenie", 2, 311, None, ()),
    "regenie-binary": ("regenie-binary", 0, 45, "window:7", ()),
    "many": ("many", 1, 60, "window:25", ()),
    "many-label": ("many", 0, 40, None, ("--privacy", "label")),
    "many-feature": ("many", 0, 40, "window:15", ("--privacy", "feature")),
}  # fmt: skip
EXCEEDING = 0.6  # share of rows that the norm bound clips


@dataclass(frozen=True)
class Cohort:
    inputs: RealSet
    people: npt.NDArray[np.intp]
    genotypes: Int64
    row_norm: float
    design: dict[str, Any]
    statistics: zarr.Group


# The quick tier has every privacy unit, always with blocks; the slow cases are larger.
@pytest.fixture(
    scope="module",
    params=[
        *thinned(["regenie-binary", "hapmap3", "label", "regenie", "feature"], every=2),
        "add-remove",
        *thinned(["many", "many-label", "many-feature"], every=3),
    ],
)
def cohort(request, real_sets, run, tmp_path_factory) -> Cohort:
    name, left_out, n_variants, cut, options = CASES[request.param]
    inputs: RealSet = real_sets[name]
    people = np.arange(left_out, len(inputs.people))
    x = lattice_genotypes(inputs, people, n_variants)
    row_norm = float(np.quantile(np.sqrt(norms(x)), 1 - EXCEEDING)) / GENOTYPE_UNIT

    directory = tmp_path_factory.mktemp(request.param)
    variants, removed = directory / "variants.txt", directory / "removed.txt"
    variants.write_text("\n".join(inputs.bim["ID"][:n_variants]) + "\n")
    removed.write_text("".join(f"{f} {i}\n" for f, i in inputs.people[:left_out]))
    store, work = directory / "genotypes.zarr", directory / "work"
    run("ingest", "--bfile", inputs.bfile, "--extract", variants, "--remove", removed,
        "--out", store)  # fmt: skip
    run("accumulate", "--genotypes", store, *inputs.outcome_options, *options,
        "--ref-freq", inputs.frequencies, "--row-norm", row_norm,
        *(["--ld-blocks", cut] if cut else []),
        "--epsilon", EPSILON, "--delta", DELTA, "--accept-noise",
        "--work-dir", work, "--ledger", directory / "ledger")  # fmt: skip
    return Cohort(
        inputs=inputs,
        people=people,
        genotypes=x,
        row_norm=row_norm,
        design=json.loads((work / "design.json").read_text()),
        statistics=zarr.open_group(work / "statistics.zarr", mode="r"),
    )


def test_statistics_equal_the_sums_of_clipped_rows(cohort: Cohort) -> None:
    x, z = cohort.genotypes, lattice_outcomes(cohort)
    clipped_x, clipped_z = clipped_rows(cohort, x, z)
    # Genotypes and phenotypes must both be clipped, otherwise clipping is not tested.
    changed = np.mean(np.any(clipped_x != x, axis=1))
    if cohort.design["guarantee"]["unit"] == "label":
        assert changed == 0
    elif cohort.design["block_norms"]:
        assert changed > EXCEEDING - 0.01  # more where single blocks are too long
    else:
        assert changed == pytest.approx(EXCEEDING, abs=0.01)
    n_fixed = in_sums(cohort.design)
    z = z[:, z.shape[1] - clipped_z.shape[1] :]
    alone = np.all(clipped_z[:, :n_fixed] == z[:, :n_fixed], axis=1)
    assert np.any(clipped_z[alone] != z[alone])

    boundaries = cohort.design["boundaries"]
    assert boundaries[-1] == x.shape[1]
    for block, variants in enumerate(blocks(boundaries)):
        rows = clipped_x[:, variants]
        np.testing.assert_array_equal(cohort.statistics[f"gram/{block}"][:], rows.T @ rows)
        np.testing.assert_array_equal(cohort.statistics[f"cross/{block}"][:], rows.T @ clipped_z)
    np.testing.assert_array_equal(cohort.statistics["outcome_gram"][:], clipped_z.T @ clipped_z)


def test_clipped_rows_satisfy_the_bounds_of_the_guarantee(cohort: Cohort) -> None:
    design = cohort.design
    x, z = clipped_rows(cohort, cohort.genotypes, lattice_outcomes(cohort))
    n_fixed = in_sums(design)
    assert norms(z[:, n_fixed:]).max() <= design["phenotype_norm"]
    if design["guarantee"]["unit"] == "label":
        products = norms(x).astype(object) * norms(z[:, n_fixed:])
        assert max(products) <= design["row_norm"] * design["phenotype_norm"]
        return
    assert norms(x).max() <= design["row_norm"]
    for block, norm in zip(blocks(design["boundaries"]), design["block_norms"] or (), strict=False):
        assert norms(x[:, block]).max() <= norm


def test_people_with_each_phenotype_are_counted(cohort: Cohort) -> None:
    table = cohort.inputs.table(cohort.inputs.pheno).iloc[cohort.people]
    people, *observed = cohort.statistics["observed"][:].tolist()
    assert people == len(table)
    np.testing.assert_array_equal(observed, table.notna().sum())


def test_public_numbers_are_the_documented_ones(cohort: Cohort) -> None:
    coding = cohort.design["genotypes"]
    assert cohort.design["row_norm"] == math.floor((cohort.row_norm * GENOTYPE_UNIT) ** 2)
    k, m = public_coding(cohort.inputs.alt_frequencies()[: cohort.genotypes.shape[1]])
    np.testing.assert_array_equal(coding["multiplier"], k)
    np.testing.assert_array_equal(coding["centre"], m)


def lattice_genotypes(inputs: RealSet, people: npt.NDArray[np.intp], n_variants: int) -> Int64:
    """Code the first genotypes, before clipping (docs/maths/planning.md, step 1)."""
    k, m = public_coding(inputs.alt_frequencies()[:n_variants])
    dosages = inputs.dosages(np.arange(n_variants))[people]
    return np.where(np.isnan(dosages), 0, k * dosages - m).astype(np.int64)


def lattice_outcomes(cohort: Cohort) -> Int64:
    """Code constant, covariates and phenotypes, before clipping (steps 1 and 2)."""
    inputs, coding = cohort.inputs, cohort.design["outcomes"]
    covariates, phenotypes = inputs.table(inputs.covar), inputs.table(inputs.pheno)
    columns = [np.full(len(covariates), coding["constant"])]
    columns += [
        coded(covariates[c["name"]], c["lower"], c["upper"], c["centre"], c["scale"])
        for c in coding["covariates"]
    ]
    if not coding["effects"]:
        columns += [
            coded(phenotypes[y["name"]], y["lower"], y["upper"], y["mean"], coding["unit"], y["sd"])
            for y in coding["phenotypes"]
        ]
        return np.stack(columns, axis=1)[cohort.people].astype(np.int64)
    fixed = np.stack(columns, axis=1).astype(np.int64)
    given = read_table(inputs.pheno_bounds).set_index("name")["sd"].astype(float)
    public = [
        (y["upper"] - y["lower"]) / 2 if np.isnan(given[y["name"]]) else given[y["name"]]
        for y in coding["phenotypes"]
    ]
    farthest = [
        max(y["upper"] - y["mean"], y["mean"] - y["lower"]) / sd
        for y, sd in zip(coding["phenotypes"], public, strict=True)
    ]
    before = min(4096, *(math.floor(32767 / each) for each in farthest))
    assert before == coding["unit"]
    for y, sd, effects in zip(coding["phenotypes"], public, coding["effects"], strict=True):
        values = phenotypes[y["name"]]
        codes = coded(values, y["lower"], y["upper"], y["mean"], before, sd)
        codes = np.where((codes == 0) & values.notna(), 1, codes)
        predicted = fixed @ np.array(effects)
        columns.append(residuals(codes * (sd / before), y, coding["unit"], predicted))
    return np.stack(columns, axis=1)[cohort.people].astype(np.int64)


def residuals(values: Any, y: dict[str, Any], unit: int, predicted: Int64) -> Int64:
    """Return what is left of phenotypes without their mean (docs/maths/adjustment.md)."""
    lattice = (y["mean"] + values - y["mean"]) / y["sd"] * unit - predicted / 2**15
    left = np.trunc(np.clip(lattice, -32767, 32767))
    return np.where(values == 0, 0, np.where(left == 0, 1, left)).astype(np.int64)


def clipped_rows(cohort: Cohort, x: Int64, z: Int64) -> tuple[Int64, Int64]:
    """Clip rows by docs/maths/planning.md.

    At least 100 phenotypes are rounded to multiples of 256.
    """
    design = cohort.design
    n_fixed, row_norm = 1 + len(design["outcomes"]["covariates"]), design["row_norm"]
    fixed, phenotypes, limits = z[:, :n_fixed], z[:, n_fixed:], design["phenotype_norm"]
    if design["guarantee"]["unit"] == "label":
        lengths = norms(x).astype(object)
        limits = np.where(lengths > row_norm, row_norm * limits // np.maximum(lengths, 1), limits)
    else:
        parts = [x[:, block] for block in blocks(design["boundaries"])]
        parts, whole = clipped_blocks(parts, design["block_norms"], row_norm)
        x, phenotypes = np.hstack(parts), scaled(phenotypes, whole)
    phenotypes = scaled(phenotypes, ratios(norms(phenotypes), limits))
    if phenotypes.shape[1] >= 100:
        phenotypes = rounded(phenotypes, limits)
    return x, np.hstack([fixed[:, : in_sums(design)], phenotypes])


def in_sums(design: dict[str, Any]) -> int:
    """Return the number of fixed columns in the sums: none where covariates are private."""
    return (
        1 + len(design["outcomes"]["covariates"]) if design["guarantee"]["unit"] == "label" else 0
    )


def rounded(rows: Int64, limits: npt.ArrayLike) -> Int64:
    """Round to multiples of 256, as near as the limit of each row permits."""
    shares = [np.floor(np.abs(rows) / 256 + share) for share in (1 / 2, 7 / 16, 3 / 8, 1 / 4, 0)]
    near = [(np.sign(rows) * np.minimum(each, 127) * 256).astype(np.int64) for each in shares]
    fits = np.stack([norms(each) <= limits for each in near])
    assert len(set(fits.argmax(axis=0))) > 2  # several thresholds are used
    return np.stack(near)[fits.argmax(axis=0), np.arange(len(rows))]
