"""Private numbers of people, subsamples, and options that exclude each other.

``test_degenerate_cohorts.py`` releases a cohort with every kind of privacy and every method.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import zarr
from acceptance_inputs import Published, texts
from command_io import table_options

ROOT = Path(__file__).resolve().parents[2]
PANEL = ROOT / "demo" / "1000g_eur343_chr22"
N_PEOPLE = 1_987  # does not occur by chance
# Matches the number itself, not digits within a digest, a key or another number.
NUMBER_OF_PEOPLE = rf"(?<![\w.])({N_PEOPLE}|{N_PEOPLE:,})(?!\w|\.\d*[1-9])"
BUDGET = ("--epsilon", 4, "--delta", 1e-7, "--cohort", "c", "--accept-noise")
HALF = ("--epsilon", 2, *BUDGET[2:])
ADD_REMOVE = ("--adjacency", "add-remove", "--nominal-n", 2_000)


@pytest.fixture(scope="module")
def cohort(run, tmp_path_factory) -> Path:
    """Provide the prefix of a cohort that is simulated from the panel in this repository."""
    prefix = tmp_path_factory.mktemp("cohort") / "c"
    run("simulate", "--bfile", PANEL, "--out", prefix, "--samples", N_PEOPLE, "--seed", 3,
        "--variants", 120, "--missing", 0.01, "--phenotypes", 2)  # fmt: skip
    return prefix


def release(cohort: Path, folder: Path, run, *options: object) -> Path:
    """Release the cohort with a ledger of its own, and return the release directory."""
    out, ledger = folder / "release", folder / "ledger.sqlite"
    run("gwas_release", "--bfile", cohort, *table_options(cohort), "--ref-freq", f"{PANEL}.afreq",
        "--ld-blocks", "window:60", *BUDGET, "--ledger", ledger, "--out", out,
        *options)  # fmt: skip
    assert "verified:" in run("verify", out, "--ledger", ledger).stdout
    return out


@pytest.mark.parametrize(("options", "stated"), [(ADD_REMOVE, False), ((), True)])
def test_only_a_public_number_of_people_is_published(
    options, stated, cohort, run, tmp_path
) -> None:
    out = release(cohort, tmp_path, run, *options)
    found = {name for name, text in texts(out).items() if re.search(NUMBER_OF_PEOPLE, text)}
    assert ("release.json" in found) is stated
    assert stated or not found


def test_a_subsample_serves_one_release(cohort, run, tmp_path) -> None:
    out = release(cohort, tmp_path, run, "--subsample", 700)
    work, ledger = tmp_path / "release.work", tmp_path / "ledger.sqlite"
    assert not (work / "partials.zarr").exists()
    charge = Published(out).statement["ledger"]["charges"][-1]["id"]
    drawn = zarr.open_group(work / "private_statistics" / f"{charge}.zarr", mode="r")
    exact = zarr.open_group(work / "statistics.zarr", mode="r")
    for name in ("gram/0", "gram/1", "cross/0", "cross/1", "outcome_gram", "observed"):
        # Noise of a thousand lattice steps is rarely zero.
        assert np.mean(drawn[name][:] != exact[name][:]) > 0.98, name
    refused = run("finalize", "--work-dir", work, "--out", tmp_path / "second", *HALF,
                  "--ledger", ledger, exit_code=3)  # fmt: skip
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
def test_combinations_without_a_proof_are_usage_errors(cohort, options, said, run, tmp_path):
    refused = run("gwas_release", "--bfile", cohort, *table_options(cohort), "--epsilon", 1,
                  "--delta", 1e-6, "--out", tmp_path / "out", *options, exit_code=2)  # fmt: skip
    assert said in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1 or "Usage" in refused.stderr


def test_gamma_is_stated_and_verified(cohort, run, tmp_path) -> None:
    out = release(cohort, tmp_path, run, "--method", "ada-ssp-budget", "--gamma", 0.2)
    mechanism = json.loads((out / "release.json").read_bytes())["mechanism"]
    eigenvalue = next(q for q in mechanism["queries"] if q["name"] == "smallest_eigenvalue")
    spent = (eigenvalue["sensitivity"][0] / eigenvalue["sigma"][0]) ** 2
    mu_squared = json.loads((out / "release.json").read_bytes())["guarantee"]["mu"] ** 2
    assert mechanism["eigenvalue_share"] == pytest.approx(0.2)
    assert spent / mu_squared == pytest.approx(0.2, rel=1e-6)
    assert "gamma" in (out / "release.log").read_text()
    refused = run(
        "gwas_release", "--bfile", cohort, *table_options(cohort), *BUDGET, "--gamma", 0.2,
        "--ledger", tmp_path / "other.sqlite", "--out", tmp_path / "other",
        exit_code=2,
    )  # fmt: skip
    assert "--gamma" in refused.stderr
