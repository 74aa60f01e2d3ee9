"""A subsample, and options that exclude each other.

``test_degenerate_cohorts.py`` releases a cohort with every kind of privacy and every method.
"""

from __future__ import annotations

import numpy as np
import pytest
import zarr
from small_cohort import Cohort, write_cohort

from primo_scale.publication.verify import verify_release


@pytest.fixture
def cohort(tmp_path) -> Cohort:
    return Cohort(write_cohort(tmp_path / "cohort"))


def test_a_subsample_serves_one_release(cohort) -> None:
    assert cohort.release("--subsample", 20, "--cohort", "c").exit_code == 0
    assert all(finding.ok for finding in verify_release(cohort.out))
    work = cohort.folder / "release.work"
    assert not (work / "partials.zarr").exists()
    (charge,) = cohort.charges()
    drawn = zarr.open_group(work / "private_statistics" / f"{charge.id}.zarr", mode="r")
    exact = zarr.open_group(work / "statistics.zarr", mode="r")
    for name in ("gram/0", "cross/0", "outcome_gram", "observed"):
        # Noise of hundreds of lattice steps is rarely zero.
        assert np.mean(drawn[name][:] != exact[name][:]) > 0.8, name
    second = ("--work-dir", work, "--out", cohort.folder / "second", "--epsilon", 0.5)
    refused = cohort.finalize(*second, "--cohort", "c")
    assert (refused.exit_code, len(cohort.charges())) == (3, 1)
    assert "the subsample has served a release already" in refused.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--adjacency", "add-remove"), "--nominal-n"),
        (("--nominal-n", 10), "public and needs no stand-in"),
        (("--privacy", "label", "--method", "naive"), "not for label privacy"),
        (("--method", "nonsense"), "no such method"),
        (("--method", "sub-samp-reuse-cov"), "--subsample"),
        (("--subsample", 10, "--method", "ssp"), "--subsample"),
        (("--privacy", "feature", "--pheno-moments"), "--pheno-moments"),
        (("--subsample", 10, "--pheno-moments"), "no common account"),
        (("--adjacency", "add-remove", "--nominal-n", 10, "--scheduler", "tcp://127.0.0.1:1"),
         "shared scheduler"),
        (("--ridge", 1, "--shrinkage", "sure"), "exclude each other"),
    ],
)  # fmt: skip
def test_combinations_without_a_proof_are_usage_errors(cohort, options, said):
    refused = cohort.release(*options)
    assert refused.exit_code == 2
    assert said in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1 or "Usage" in refused.stderr
