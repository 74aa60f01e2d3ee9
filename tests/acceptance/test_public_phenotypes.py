"""Feature privacy without covariates: phenotypes are public, and Y'Y with them."""

from dataclasses import replace

import numpy as np
import pytest
import zarr
from support.documents import read_document
from support.release_edits import problems_in
from support.small_cohort import (
    BUDGET,
    Cohort,
    add_covariate,
    command,
    outcomes,
    refused,
    share_adjustment,
    succeeded,
    write_cohort,
)

from primo_scale.cli.commands import accumulate, verify
from primo_scale.run.design import Design
from primo_scale.verify.release import document_findings

N, D = 400, 6
FEATURE = ("--privacy", "feature")


@pytest.fixture(scope="module")
def cohorts(tmp_path_factory):
    """Two cohorts that differ in the genotypes of four people, many of whose rows are long."""
    folder = tmp_path_factory.mktemp("cohorts")
    names = ("T", "U")
    found = [write_cohort(folder / name, n_people=N, names=names) for name in ("one", "other")]
    lines = ["#CHROM\tID\tREF\tALT\tALT_FREQS\tOBS_CT"]
    lines += [f"1\trs{j}\tG\tA\t0.3\t1000" for j in range(D)]
    (folder / "panel.afreq").write_text("\n".join(lines) + "\n")
    for genotypes, each in zip((0, 255), found, strict=True):  # two copies of A1, and none
        bed = bytearray((each / "cohort.bed").read_bytes())
        for byte in range(3, len(bed), N // 4):
            bed[byte] = genotypes
        (each / "cohort.bed").write_bytes(bytes(bed))
    return found


def sums(folder, work, *options):
    """Return the exact sums of a cohort of long rows."""
    cohort = Cohort(folder)
    if not cohort.store.exists():
        cohort.ingest()
    found = command(
        accumulate, "--genotypes", cohort.store, *outcomes(folder), *FEATURE, *BUDGET, *options,
        "--ref-freq", folder.parent / "panel.afreq", "--row-norm", 1.5,
        "--work-dir", work, "--ledger", work.with_name("ledger.sqlite"),
    )  # fmt: skip
    succeeded(found)
    group = zarr.open_group(work / "statistics.zarr", mode="r")
    return group["cross/0"][:], group["outcome_gram"][:]


@pytest.mark.parametrize("covariate", [False, True])
def test_genotypes_change_the_gram_of_phenotypes_only_with_covariates(cohorts, tmp_path, covariate):
    rows = "".join(f"f{i}\tp{i}\t{i % 90}\n" for i in range(N))
    found = []
    for number, folder in enumerate(cohorts):
        options = add_covariate(folder, rows) if covariate else ()
        work = tmp_path / f"work{number}"
        if number:
            share_adjustment(tmp_path / "work0", work)
        found.append(sums(folder, work, *options))
    (cross, gram), (other_cross, other_gram) = found
    assert (cross != other_cross).any()
    assert (gram != other_gram).any() == covariate


def test_the_released_gram_is_exact_and_stated_to_be(cohorts):
    cohort = Cohort(cohorts[0])
    succeeded(cohort.release(*FEATURE, "--method", "reuse-cov-proj-y"))
    work = cohort.folder / "release.work"
    (noisy,) = (work / "private_statistics").iterdir()
    grams = [zarr.open_group(each)["outcome_gram"][:] for each in (noisy, work / "statistics.zarr")]
    np.testing.assert_array_equal(*grams)
    succeeded(command(verify, cohort.out))
    document = read_document(cohort.out)
    assert sorted(document["mechanism"]["exact_parts"]) == ["observed", "phenotype_gram"]
    document["cohort"]["n_covariates"] = 1
    found = problems_in(document_findings(document))
    assert any("without noise are phenotype_gram" in each for each in found)


def test_sums_that_another_version_clipped_are_refused(cohorts, monkeypatch):
    cohort, rule = Cohort(cohorts[1]), Design.clipping_rule
    with monkeypatch.context() as earlier:
        scaled = property(lambda design: replace(rule.fget(design), exact_phenotype_gram=False))
        earlier.setattr(Design, "clipping_rule", scaled)
        succeeded(cohort.accumulate(*FEATURE))
    refused(cohort.finalize(), 3, "statistics.zarr", "version that summed")
