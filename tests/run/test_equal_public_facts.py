"""Two cohorts that agree in public facts alone give equal releases, for every option.

The second cohort has other values, many of them extreme, missing or constant. What crosses the wall
in its run, the noisy statistics, is replaced by that of the first. Whatever differs then between
the two directories is a private fact that went around the noise.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from filesets import write_fileset_of
from pgenlib import PgenWriter
from small_cohort import command, succeeded

from primo_scale.cli import release
from primo_scale.ledger.ledger import Ledger
from primo_scale.privacy import noise_store
from primo_scale.run import describe_release, finalize_stage, payments

D = 24
BUDGET = ("--epsilon", 3, "--delta", 1e-5, "--accept-noise")
TABLES = [
    word
    for name in ("pheno", "pheno-bounds", "covar", "covar-bounds")
    for word in (f"--{name}", f"{name}.tsv")
]
ALL, GENOTYPES, PHENOTYPES = "all", "genotypes and covariates", "phenotypes"


@dataclass(frozen=True)
class Case:
    """Options of a release, and what the second cohort may have of its own."""

    options: str
    private: str = ALL
    people: tuple[int, int] = (48, 48)  # different where the number of people is private
    phenotypes: int = 3
    source: str = "--bfile"


QUICK = {
    "full": Case("--ld-blocks window:5"),
    "private n": Case(
        "--adjacency add-remove --nominal-n 50 --ref-freq p.afreq --sumstats", people=(48, 61)
    ),
    "label": Case("--privacy label --ref-freq p.afreq --sumstats", PHENOTYPES),
    "feature": Case("--privacy feature --ld-blocks window:5", GENOTYPES),
    "moments": Case("--pheno-moments --ref-freq p.afreq"),
    "hold-out": Case(
        "--hold-out 0.3 --calibrate --ref-freq p.afreq --prior-weights T=p.score",
        people=(120, 120),
    ),
    "LD components": Case("--ref-freq p.afreq --ld-panel p --pc-loadings p.eigenvec.allele"),
    "dosages": Case("--dosages --ref-freq p.afreq --ld-blocks window:5", source="--pfile"),
}
SLOW = {
    "private n, all of it": Case(
        "--adjacency add-remove --nominal-n 50 --ref-freq p.afreq --ld-panel p --pheno-moments "
        "--pc-loadings p.eigenvec.allele --prior-weights T=p.score",
        people=(48, 61),
    ),
    "label, add-remove": Case("--privacy label --adjacency add-remove", PHENOTYPES),
    "feature, add-remove": Case("--privacy feature --adjacency add-remove", GENOTYPES),
    "label, moments": Case("--privacy label --pheno-moments --ref-freq p.afreq", PHENOTYPES),
    "label, hold-out": Case("--privacy label --hold-out 0.3", PHENOTYPES, people=(120, 120)),
    "feature, hold-out": Case(
        "--privacy feature --hold-out 0.3 --pc-loadings p.eigenvec.allele --ref-freq p.afreq",
        GENOTYPES, people=(120, 120),
    ),
    "hold-out, moments": Case(
        "--hold-out 0.3 --pheno-moments --ref-freq p.afreq --ld-panel p --calibrate",
        people=(120, 120),
    ),
    "variants of the panel": Case("--ref-freq p.afreq --ld-panel p --no-ld-components --sumstats"),
    "genetic factors": Case("--ref-freq p.afreq --ld-panel p --genetic-factors 2"),
    "chosen variants": Case("--ref-freq p.afreq --extract-by-prior p.score --top 9"),
    "subsample": Case("--subsample 20"),
    "eigenvalue": Case("--method ada-ssp-budget --gamma 0.2"),
    "many phenotypes": Case("--ref-freq p.afreq", phenotypes=101),
    "ridge": Case("--ridge 10 --row-norm 3 --ref-freq p.afreq"),
    "projected genotypes": Case("--method reuse-cov-proj-x --privacy label", PHENOTYPES),
    "projected phenotypes": Case("--method reuse-cov-proj-y --privacy feature", GENOTYPES),
    **{
        f"method {name}": Case(f"--method {name} --ld-blocks window:5")
        for name in ("reuse-cov-gauss", "reuse-cov-proj", "ssp", "const-ssp-full", "naive")
    },
}  # fmt: skip


def write_public(folder: Path) -> None:
    """Write the public files: panel, frequencies, loadings, a score, and the bounds."""
    rng = np.random.default_rng(5)
    frequency = rng.uniform(0.1, 0.9, D).round(2)
    write_fileset_of(folder / "p", rng.binomial(2, frequency, (70, D)).T, range(1, D + 1))
    lines = {
        "p.afreq": ["#CHROM ID REF ALT ALT_FREQS OBS_CT"]
        + [f"1 rs{j} G A {frequency[j]} 140" for j in range(D)],
        "p.acount": ["#CHROM ID REF ALT ALT_CTS OBS_CT"]
        + [f"1 rs{j} G A {round(100 * frequency[j])} 100" for j in range(D)],
        "p.eigenvec.allele": ["#CHROM ID REF ALT A1 PC1 PC2"]
        + [
            f"1 rs{j} G A {allele} {sign * (1 + j % 3)} {sign * (j % 4 - 1.4)}"
            for j in range(D)
            for allele, sign in (("G", -1), ("A", 1))
        ],
        "p.sscore": ["#IID PC1_AVG PC2_AVG", "a -0.3 -0.2", "b 0.3 0.4"],
        "p.score": ["rsID effect_allele other_allele effect_weight"]
        + [f"rs{j} A G {(j % 5 - 2.1) / 40:.4f}" for j in range(D)],
        "covar-bounds.tsv": ["name lower upper", "AGE 20 80", "SEX 0 1"],
    }
    for name, content in lines.items():
        text = "\n".join("\t".join(line.split()) for line in content)
        (folder / name).write_text(text + "\n")


def write_cohort(folder: Path, case: Case, *, second: bool) -> None:
    """Write a cohort: the usual one, or one with extreme private values."""
    own = {GENOTYPES: case.private in (ALL, GENOTYPES), PHENOTYPES: case.private != GENOTYPES}
    extreme = {what: second and is_private for what, is_private in own.items()}
    n = case.people[second]
    people = [f"{'q' if case.people[0] != case.people[1] and second else 'p'}{i}" for i in range(n)]
    rng = {what: np.random.default_rng(7 + is_extreme) for what, is_extreme in extreme.items()}
    copies = rng[GENOTYPES].integers(-1, 3, (D, n))
    age, sex = rng[GENOTYPES].uniform(18, 85, n), rng[GENOTYPES].integers(0, 2, n)
    traits = rng[PHENOTYPES].normal(100, 15, (case.phenotypes - 1, n))
    traits[rng[PHENOTYPES].random(traits.shape) < 0.1] = np.nan
    is_case = rng[PHENOTYPES].integers(0, 2, n).astype(float)
    if extreme[GENOTYPES]:
        copies[: D // 3], copies[D // 3 : D // 2], age = 2, -1, age * 1e6
    if extreme[PHENOTYPES]:
        traits[0] *= -1e9
        traits[1, 1:], is_case[:] = np.nan, 0
    write_genotypes(folder, case, copies, people)
    names = ["T", *(f"U{j}" for j in range(1, case.phenotypes - 1)), "CASE"]
    write_table(folder / "pheno.tsv", people, dict(zip(names, [*traits, is_case], strict=True)))
    write_table(folder / "covar.tsv", people, {"AGE": age, "SEX": sex})
    bounds = "".join(f"{name}\t40\t160\t100\t15\tquantitative\n" for name in names[:-1])
    header = "name\tlower\tupper\tmean\tsd\ttype\n"
    (folder / "pheno-bounds.tsv").write_text(f"{header}{bounds}CASE\t0\t1\t0.4\t0.49\tbinary\n")


def write_genotypes(folder: Path, case: Case, copies: np.ndarray, people: list[str]) -> None:
    if case.source == "--pfile":
        dosages = np.where(copies < 0, -9, np.minimum(copies + 0.3, 2)).astype(np.float32)
        path = bytes(folder / "c.pgen")
        writer = PgenWriter(path, len(people), variant_ct=D, nonref_flags=False,
                            dosage_present=True)  # fmt: skip
        for row in dosages:
            writer.append_dosages(row)
        writer.close()
        (folder / "c.psam").write_text("#IID\n" + "".join(f"{person}\n" for person in people))
        rows = "".join(f"1\t{j + 1}\trs{j}\tG\tA\n" for j in range(D))
        (folder / "c.pvar").write_text("#CHROM\tPOS\tID\tREF\tALT\n" + rows)
        return
    write_fileset_of(folder / "c", copies, range(1, D + 1))
    (folder / "c.bim").write_text("".join(f"1\trs{j}\t0\t{j + 1}\tA\tG\n" for j in range(D)))
    rows = "".join(f"{person}\t{person}\t0\t0\t1\t-9\n" for person in people)
    (folder / "c.fam").write_text(rows)


def write_table(path: Path, people: list[str], columns: dict[str, np.ndarray]) -> None:
    cells = np.where(np.isnan(table := np.array([*columns.values()])), "NA", table.astype(str))
    rows = ("\t".join([person, *row]) for person, row in zip(people, cells.T, strict=True))
    path.write_text("\n".join(["\t".join(["#IID", *columns]), *rows]) + "\n")


@dataclass
class Wall:
    """Noisy statistics that crossed the wall, in the order of the first run."""

    crossed: list[Any] = field(default_factory=list)
    exact: list[str] = field(default_factory=list)  # digests of the exact statistics of each run
    is_second: bool = False

    def passed(self, function: Callable[..., Any], move: Callable[[Any, Any], Any]) -> Any:
        """Return a function whose result in the second run is what `move` makes with the first."""

        def wrapped(raw: Any, *arguments: Any, **options: Any) -> Any:
            found = function(raw, *arguments, **options)
            self.exact += [raw.sha256] if hasattr(raw, "sha256") else []
            if not self.is_second:
                self.crossed.append(found)
                return found
            return move(found, self.crossed.pop(0))

        return wrapped


def released(folder: Path, case: Case, wall: Wall, patch: pytest.MonkeyPatch) -> dict[str, str]:
    """Make a release in a folder; return its files, and what a batch job would show."""
    patch.chdir(folder)
    # Random identifiers and the date are made equal; everything else is the program's.
    patch.setattr(noise_store, "random_charge_id", map("{:016x}".format, count()).__next__)
    day = datetime(2026, 1, 1, tzinfo=UTC)
    patch.setattr(describe_release, "datetime", SimpleNamespace(now=lambda _: day))
    patch.setenv("PRIMO_SCALE_BATCH_JOB", "1")
    patch.setattr(
        finalize_stage, "pay_and_draw",
        wall.passed(finalize_stage.pay_and_draw, lambda own, other: replace(
            own, private=replace(own.private, matrices=other.private.matrices))),
    )  # fmt: skip
    patch.setattr(
        finalize_stage, "measure_once",
        wall.passed(finalize_stage.measure_once, lambda own, other: other),
    )  # fmt: skip
    patch.setattr(
        payments, "pay_for_moments",
        wall.passed(payments.pay_for_moments, lambda own, other: (
            replace(own[0], sums=other[0].sums), own[1])),
    )  # fmt: skip
    words = [case.source, "c", *TABLES, *BUDGET, *case.options.split()]
    done = succeeded(command(release.main, *words, "--ledger", "ledger", "--out", "release"))
    patch.undo()
    out = folder / "release"
    files = {str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*.*")}
    shown = (done.stdout + done.stderr).replace(str(folder), "")
    return {**files, "output of a batch job": shown.encode()}


@pytest.mark.parametrize(
    "case",
    [
        *(pytest.param(case, id=name) for name, case in QUICK.items()),
        *(pytest.param(case, id=name, marks=pytest.mark.slow) for name, case in SLOW.items()),
    ],
)
def test_nothing_but_noisy_statistics_reaches_a_release(case: Case, tmp_path: Path) -> None:
    wall, found = Wall(), []
    with Ledger(tmp_path / "ledger"):  # one signing key
        pass
    for folder in (tmp_path / "first", tmp_path / "second"):
        folder.mkdir()
        shutil.copy(tmp_path / "ledger", folder / "ledger")
        write_public(folder)
        wall.is_second = folder.name == "second"
        write_cohort(folder, case, second=wall.is_second)
        with pytest.MonkeyPatch.context() as patch:
            found.append(released(folder, case, wall, patch))
    assert not wall.crossed
    assert len(set(wall.exact)) == 2  # the cohorts differ
    first, second = found
    assert first.keys() == second.keys()
    assert [each for each, content in first.items() if content != second[each]] == []
