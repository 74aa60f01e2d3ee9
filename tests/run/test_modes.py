"""A subsample, and the share of a method.

``acceptance/test_degenerate_cohorts.py`` releases cohorts with every kind of privacy and method.
"""

import numpy as np
import pytest
import zarr
from documents import read_document

from primo_scale.publication.verify import verify_release


def test_a_subsample_serves_one_release(cohort) -> None:
    assert cohort.release("--subsample", 20, "--cohort", "c").exit_code == 0
    assert all(finding.ok for finding in verify_release(cohort.out))
    work = cohort.folder / "release.work"
    assert not (work / "partials.zarr").exists()
    (charge,) = cohort.charges()
    drawn = zarr.open_group(work / "private_statistics" / f"{charge.id}.zarr", mode="r")
    exact = zarr.open_group(work / "statistics.zarr", mode="r")
    for name in ("gram/0", "cross/0", "outcome_gram"):
        # Noise of hundreds of lattice steps is rarely zero.
        assert np.mean(drawn[name][:] != exact[name][:]) > 0.8, name
    second = ("--work-dir", work, "--out", cohort.folder / "second", "--epsilon", 0.5)
    refused = cohort.finalize(*second, "--cohort", "c")
    assert (refused.exit_code, len(cohort.charges())) == (3, 1)
    assert "the subsample has served a release already" in refused.stderr


def test_gamma_is_stated_and_verified(cohort) -> None:
    assert cohort.release("--method", "ada-ssp-budget", "--gamma", 0.2).exit_code == 0
    assert all(finding.ok for finding in verify_release(cohort.out))
    statement = read_document(cohort.out)
    mechanism = statement["mechanism"]
    eigenvalue = next(q for q in mechanism["queries"] if q["name"] == "smallest_eigenvalue")
    spent = (eigenvalue["sensitivity"][0] / eigenvalue["sigma"][0]) ** 2
    assert mechanism["eigenvalue_share"] == pytest.approx(0.2)
    assert spent / statement["guarantee"]["mu"] ** 2 == pytest.approx(0.2, rel=1e-6)
    assert "option --gamma 0.2\n" in (cohort.out / "release.log").read_text()


def test_a_chosen_penalty_is_an_option_of_the_log(cohort) -> None:
    assert cohort.release("--ridge", 0.7).exit_code == 0
    log = (cohort.out / "release.log").read_text()
    assert "option --ridge 0.7\n" in log
    assert "option --method " in log  # as the program chose it
    assert "option --ld-blocks" not in log and "option --shrinkage" not in log
