"""A subsample: who is in it, and what is never released of it."""

import shutil

import numpy as np
import zarr
from support.small_cohort import D, N, refused, succeeded


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
    assert not (ingested.folder / "some" / "partials.zarr").exists()  # who is in it
    gram, some = sums
    assert gram.any()
    np.testing.assert_array_equal(some * N, gram * 20)
    shown = ingested.finalize("--non-private", "--work-dir", ingested.folder / "some", budget=())
    refused(shown, 2, "the subsample of these statistics is secret")
    assert not ingested.out.exists()
