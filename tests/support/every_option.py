"""Tiny cohorts and public files with which a release may have any option."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pgenlib import PgenWriter

from support.filesets import write_fileset_of

D = 24
BUDGET = ("--epsilon", "100", "--delta", 1e-5, "--accept-noise")
TABLES = [
    word
    for name in ("pheno", "pheno-bounds", "covar", "covar-bounds")
    for word in (f"--{name}", f"{name}.tsv")
]
ALL, GENOTYPES, PHENOTYPES = "all", "genotypes and covariates", "phenotypes"


@dataclass(frozen=True)
class Case:
    options: str
    private: str = ALL
    people: tuple[int, int] = (48, 48)  # different where the number of people is private
    phenotypes: int = 3
    source: str = "--bfile"


def release_words(case: Case) -> list[str]:
    inputs = [case.source, "c", *TABLES, *BUDGET]
    return [*inputs, *case.options.split(), "--ledger", "ledger", "--out", "release"]


def write_public(folder: Path) -> None:
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
        "p.populations": [f"I{i} {'AB'[i % 3 == 0]}" for i in range(70)],
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
