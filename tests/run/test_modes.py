"""A subsample: its releases, and who is in it."""

import shutil

import numpy as np
import zarr
from support.small_cohort import D, N, refused, succeeded

from primo_scale.verify.release import release_findings


def test_a_subsample_serves_one_release(cohort) -> None:
    assert cohort.release("--subsample", 20, "--cohort", "c").exit_code == 0
    assert all(finding.ok for finding in release_findings(cohort.out))
    work = cohort.folder / "release.work"
    assert not (work / "partials.zarr").exists()
    (charge,) = cohort.charges()
    drawn = zarr.open_group(work / "private_statistics" / f"{charge.id}.zarr", mode="r")
    exact = zarr.open_group(work / "statistics.zarr", mode="r")
    for name in ("gram/0", "cross/0", "outcome_gram"):
        # Noise of hundreds of lattice steps is rarely zero.
        assert np.mean(drawn[name][:] != exact[name][:]) > 0.8, name
    second = ("--work-dir", work, "--out", cohort.folder / "second", "--epsilon", 0.5)
    again = cohort.finalize(*second, "--cohort", "c")
    refused(again, 2, "the phenotypes were adjusted for a release with another epsilon and delta")
    assert len(cohort.charges()) == 1


def test_the_subsample_is_in_no_release_without_noise_and_is_a_subsample(ingested) -> None:
    """The noise on X'X is smaller because most people are not in it."""
    panel = ingested.folder / "panel.afreq"
    rows = "".join(f"1\trs{j}\tG\tA\t0.3\t100\n" for j in range(D))
    panel.write_text("#CHROM\tID\tREF\tALT\tALT_FREQS\tOBS_CT\n" + rows)
    bed = ingested.folder / "cohort.bed"
    bed.write_bytes(bed.read_bytes()[:3] + bytes(N // 4 * D))  # two copies in everybody
    shutil.rmtree(ingested.store)
    ingested.ingest()
    options = ("--ref-freq", panel, "--row-norm", 10**6)
    sums = []
    for work, size in (("all", []), ("some", ["--subsample", 20])):
        where = ("--work-dir", ingested.folder / work, "--ledger", ingested.folder / f"{work}.sql")
        succeeded(ingested.accumulate(*options, *size, *where))
        statistics = zarr.open_group(ingested.folder / work / "statistics.zarr", mode="r")
        sums.append(statistics["gram/0"][:])
    gram, some = sums
    assert gram.any()
    np.testing.assert_array_equal(some * N, gram * 20)
    shown = ingested.finalize("--non-private", "--work-dir", ingested.folder / "some", budget=())
    refused(shown, 2, "the subsample of these statistics is secret")
    assert not ingested.out.exists()
