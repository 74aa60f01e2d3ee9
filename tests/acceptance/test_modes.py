"""Every kind of privacy and every method, from PLINK files to a verified release.

The cohort is simulated from the panel in this repository.
"""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import zarr
from acceptance_inputs import Published
from command_io import table_options
from edge_answers import moment_sums
from edge_cohorts import Column

ROOT = Path(__file__).resolve().parents[2]
PANEL = ROOT / "demo" / "1000g_eur343_chr22"
N_PEOPLE = 1_987  # does not occur by chance
# Matches the number itself, not digits within a digest, a key or another number.
NUMBER_OF_PEOPLE = rf"(?<![\w.])({N_PEOPLE}|{N_PEOPLE:,})(?!\w|\.\d*[1-9])"
N_VARIANTS, N_PHENOTYPES = 240, 4
DELTA = 1e-7

KINDS = {
    "full": (),
    "full-add": ("--adjacency", "add-remove", "--nominal-n", 2_000),
    "label": ("--privacy", "label"),
    "label-add": ("--privacy", "label", "--adjacency", "add-remove"),
    "feature": ("--privacy", "feature"),
    "feature-add": ("--privacy", "feature", "--adjacency", "add-remove"),
    "subsample": ("--subsample", 700),
    "moments": ("--pheno-moments",),
}
# Parts of the statistics that get no noise, by privacy unit.
PUBLIC = {
    "full": (),
    "label": ("gram", "cross fixed", "outcome fixed"),
    "feature": ("outcome phenotypes", "observed"),
}
METHODS = [
    ("full", "reuse-cov-gauss", "sure"),
    ("full", "reuse-cov-gauss", "james-stein"),
    ("full", "reuse-cov-gauss", "ridge-at-noise-norm"),
    ("full", "reuse-cov-proj", None),
    ("full", "ssp", None),
    ("full", "ada-ssp", None),
    ("full", "ada-ssp-budget", None),
    ("full", "const-ssp-full", None),
    ("full", "naive", None),
    ("full-add", "ada-ssp", None),
    ("label", "reuse-cov-proj-x", None),
    ("feature", "reuse-cov-proj-y", None),
    ("feature", "naive", None),
]


@dataclass(frozen=True)
class Accumulated:
    """Work directory with statistics of one kind, and the ledger of its release."""

    kind: str
    work: Path
    ledger: Path

    @property
    def privacy(self) -> str:
        """Privacy unit."""
        return self.kind.split("-")[0] if self.kind.split("-")[0] in PUBLIC else "full"


@pytest.fixture(scope="module")
def cohort(run, tmp_path_factory) -> Path:
    """Provide the prefix of a simulated cohort with missing genotypes and phenotypes."""
    prefix = tmp_path_factory.mktemp("cohort") / "c"
    run("simulate", "--bfile", PANEL, "--out", prefix, "--samples", N_PEOPLE, "--seed", 3,
        "--variants", N_VARIANTS, "--missing", 0.01, "--phenotypes", N_PHENOTYPES,
        "--prevalence", 0.2)  # fmt: skip
    table = Path(f"{prefix}.pheno.tsv")
    header, *rows = table.read_text().splitlines()
    rows = [re.sub(r"\S+$", "NA", row) if i % 7 == 0 else row for i, row in enumerate(rows)]
    table.write_text("\n".join([header, *rows]) + "\n")
    run("ingest", "--bfile", prefix, "--out", f"{prefix}.zarr")
    return prefix


@pytest.fixture(scope="module")
def accumulated(cohort, run, tmp_path_factory):
    """Provide a function that returns statistics of a kind, summed at the first call."""
    made: dict[str, Accumulated] = {}

    def get(kind: str) -> Accumulated:
        if kind not in made:
            directory = tmp_path_factory.mktemp(kind)
            work, ledger = directory / "work", directory / "ledger.sqlite"
            unit = Accumulated(kind, work, ledger)
            budget = ("--privacy", unit.privacy) if kind not in ("subsample", "moments") else ()
            if "add" in kind:
                budget = (*budget, "--adjacency", "add-remove")
            run("ledger", "set-budget", "--ledger", ledger_file(ledger, run), "--cohort", "c",
                "--epsilon", 60, "--delta", DELTA, *budget)  # fmt: skip
            run("accumulate", "--genotypes", f"{cohort}.zarr", *table_options(cohort),
                "--ref-freq", f"{PANEL}.afreq", "--ld-blocks", "window:60", "--epsilon", 4,
                "--delta", DELTA, "--work-dir", work, "--ledger", ledger, "--cohort", "c",
                "--accept-noise", *KINDS[kind])  # fmt: skip
            made[kind] = unit
        return made[kind]

    return get


def phenotypes_of(cohort: Path) -> list[Column]:
    """Return the cells of the phenotype file as text, with their public bounds."""
    table = pd.read_csv(f"{cohort}.pheno.tsv", sep="\t", dtype=str, keep_default_na=False)
    bounds = pd.read_csv(f"{cohort}.pheno-bounds.tsv", sep="\t")
    return [
        Column(list(table[known["name"]]), known["lower"], known["upper"])
        for known in bounds.to_dict("records")
    ]


def ledger_file(path: Path, run) -> Path:
    """Create an empty ledger, because the option requires an existing file."""
    from primo_scale.ledger.ledger import Ledger

    with Ledger(path):
        return path


def release(at: Accumulated, out: Path, run, *options: object) -> Published:
    run("finalize", "--work-dir", at.work, "--out", out, "--epsilon", 4, "--delta", DELTA,
        "--ledger", at.ledger, "--cohort", "c", "--accept-noise", *options)  # fmt: skip
    checked = run("verify", out, "--ledger", at.ledger)
    assert "verified:" in checked.stdout
    return Published(out)


def parts(group: zarr.Group, n_fixed: int) -> dict[str, np.ndarray]:
    """Return the parts of stored statistics as flat arrays, by name."""
    blocks = range(len(list(group["cross"].arrays())))
    cross = np.vstack([group[f"cross/{block}"][:] for block in blocks])
    outcome = group["outcome_gram"][:]
    return {
        "gram": np.concatenate([group[f"gram/{block}"][:].ravel() for block in blocks]),
        "cross fixed": cross[:, :n_fixed].ravel(),
        "cross phenotypes": cross[:, n_fixed:].ravel(),
        "outcome fixed": outcome[:n_fixed, :n_fixed].ravel(),
        "outcome mixed": outcome[:n_fixed, n_fixed:].ravel(),
        "outcome phenotypes": outcome[n_fixed:, n_fixed:].ravel(),
        "observed": group["observed"][:],
    }


@pytest.mark.parametrize("kind", KINDS)
def test_noise_covers_all_protected_statistics(kind, accumulated, run, tmp_path) -> None:
    at = accumulated(kind)
    published = release(at, tmp_path / "release", run)
    statement = published.statement
    assert statement["guarantee"]["privacy"] == at.privacy
    assert np.isfinite(published.variant_weights.to_numpy()).all()
    assert published.variant_weights.shape == (N_VARIANTS, N_PHENOTYPES + 1)

    charge = statement["ledger"]["charges"][-1]["id"]
    drawn = zarr.open_group(at.work / "private_statistics" / f"{charge}.zarr", mode="r")
    exact = zarr.open_group(at.work / "statistics.zarr", mode="r")
    n_fixed = 1 + statement["cohort"]["n_covariates"]
    noisy_parts, exact_parts = parts(drawn, n_fixed), parts(exact, n_fixed)
    for name, noisy in noisy_parts.items():
        if name in PUBLIC[at.privacy]:
            np.testing.assert_array_equal(noisy, exact_parts[name], err_msg=name)
        elif name == "observed":  # a few numbers, of which one may be unchanged by chance
            assert (noisy != exact_parts[name]).any(), name
        else:  # noise of a thousand lattice steps is rarely zero
            assert np.mean(noisy != exact_parts[name]) > 0.98, name


@pytest.mark.parametrize(("kind", "method", "shrinkage"), METHODS)
def test_every_method_gives_weights_and_verifies(
    kind, method, shrinkage, accumulated, run, tmp_path
) -> None:
    at = accumulated(kind)
    chosen = () if shrinkage is None else ("--shrinkage", shrinkage)
    published = release(at, tmp_path / "release", run, "--method", method, *chosen)
    mechanism = published.statement["mechanism"]
    assert mechanism["method"] == method
    weights = published.variant_weights.to_numpy()
    assert np.isfinite(weights).all() and weights.any()
    copies = N_PHENOTYPES + 1 if method == "naive" else 1
    assert mechanism["gram_copies"] == copies


def test_a_private_number_of_people_is_not_published(accumulated, run, tmp_path) -> None:
    out = release(accumulated("full-add"), tmp_path / "release", run).path
    texts = {p: p.read_bytes() for p in out.rglob("*") if p.is_file()}
    for path, content in texts.items():
        text = gzip.decompress(content).decode() if path.suffix == ".gz" else content.decode()
        assert not re.search(NUMBER_OF_PEOPLE, text), path.name
    # The search finds the number in a release where it is public.
    known = release(accumulated("full"), tmp_path / "known", run).path
    assert re.search(NUMBER_OF_PEOPLE, (known / "release.json").read_text())


def test_a_subsample_serves_one_release(accumulated, run, tmp_path) -> None:
    at = accumulated("subsample")
    release(at, tmp_path / "first", run)
    assert not (at.work / "partials.zarr").exists()
    refused = run("finalize", "--work-dir", at.work, "--out", tmp_path / "second", "--epsilon", 3,
                  "--delta", DELTA, "--ledger", at.ledger, "--cohort", "c", "--accept-noise",
                  exit_code=3)  # fmt: skip
    assert "the subsample has served a release already" in refused.stderr


def test_moments_are_paid_from_the_same_epsilon(cohort, accumulated, run, tmp_path) -> None:
    at = accumulated("moments")
    statement = release(at, tmp_path / "release", run).statement
    assert len(statement["ledger"]["charges"]) == 2
    assert statement["mechanism"]["share"] == 0.95
    names = {query["name"] for query in statement["mechanism"]["queries"]}
    assert "phenotype_moments" in names
    # The public bounds have sd 1 for all phenotypes, and the noisy sds are all different.
    sds = [p["sd"] for p in statement["public_inputs"]["phenotypes"]][:N_PHENOTYPES]
    assert len(set(sds)) == N_PHENOTYPES
    bought = json.loads((at.work / "phenotype_moments.json").read_text())
    assert bought["charge"] == statement["ledger"]["charges"][0]["id"]
    draws = (np.array(bought["sums"]) - moment_sums(phenotypes_of(cohort))) / bought["sigma"]
    # Fifteen normal numbers give false alarms below 1e-9. The sums are up to 70 sigma.
    assert draws.size == 3 * (N_PHENOTYPES + 1)
    assert 0.15 < np.sqrt(np.mean(draws**2)) < 3


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
