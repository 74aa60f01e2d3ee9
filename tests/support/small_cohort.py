"""Tiny cohort for fast tests of commands, which run in this process."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from click.testing import CliRunner

from primo_scale.cli.command_line import ContractCommand
from primo_scale.cli.commands import accumulate, finalize, ingest, plan, release, verify
from primo_scale.ledger.ledger import Ledger
from primo_scale.run.fields import FLAG, declared
from support.command_io import PANEL, error_in, simulated

N, D = 44, 6
BUDGET = ("--epsilon", 1, "--delta", 1e-6, "--accept-noise")


def command(main, *arguments):
    """Run a command in this process; experts' fields may stand among the arguments like options."""
    words, fields, environment = [], {}, {}
    rest = [str(argument) for argument in arguments]
    known = declared(main.kinds[0]) if isinstance(main, ContractCommand) and main.kinds else {}
    if main is release and "--dry-run" in rest:
        main = plan
        rest.remove("--dry-run")
    while rest:
        word = rest.pop(0)
        if word == "--log-format":
            environment["PRIMO_SCALE_LOG"] = rest.pop(0)
            continue
        option = known.get(word.removeprefix("--").replace("-", "_"), [None])[0]
        if word.startswith("--") and option is not None and option.expert:
            fields[word.removeprefix("--").replace("-", "_")] = option.kind is FLAG or rest.pop(0)
        else:
            words.append(word)
    return CliRunner().invoke(main, words, obj=fields, env=environment)


def succeeded(result):
    assert result.exit_code == 0, result.output
    return result


def refused(result, code, *words):
    """Check the exit code of a command, and that its one error line contains the words."""
    assert result.exit_code == code, result.stderr
    error = error_in(result.stderr)
    assert [word for word in words if word not in error] == []


def share_adjustment(paid, work):
    """Give another work directory a paid adjustment, so that its sums are of equal residuals."""
    if not work.exists():
        work.mkdir(mode=0o700)
        shutil.copy(paid / "adjustment.json", work)
        shutil.copytree(paid / "private_statistics", work / "private_statistics")


def write_cohort(folder, *, n_people=N, n_variants=D, names=("T",)):
    """Write random genotypes of 4k people, and phenotypes all the same; return the folder."""
    packed = np.random.default_rng(0).integers(0, 256, (n_variants, n_people // 4), dtype=np.uint8)
    folder.mkdir()
    (folder / "cohort.bed").write_bytes(b"\x6c\x1b\x01" + packed.tobytes())
    variants = (f"1\trs{j}\t0\t{j + 1}\tA\tG\n" for j in range(n_variants))
    (folder / "cohort.bim").write_text("".join(variants))
    (folder / "cohort.fam").write_text(
        "".join(f"f{i}\tp{i}\t0\t0\t1\t-9\n" for i in range(n_people))
    )
    rows = "".join(f"f{i}\tp{i}" + f"\t{i % 5}" * len(names) + "\n" for i in range(n_people))
    (folder / "pheno.tsv").write_text("\t".join(["FID", "IID", *names]) + "\n" + rows)
    bounds = "".join(f"{name}\t0\t4\t2\t1\n" for name in names)
    (folder / "bounds.tsv").write_text("name\tlower\tupper\tmean\tsd\n" + bounds)
    return folder


def add_covariate(folder, rows, name="AGE"):
    """Write a table of one covariate, between 0 and 99, and return the options for it."""
    (folder / "covar.tsv").write_text(f"FID\tIID\t{name}\n" + rows)
    (folder / "covar_bounds.tsv").write_text(f"name\tlower\tupper\n{name}\t0\t99\n")
    return ["--covar", folder / "covar.tsv", "--covar-bounds", folder / "covar_bounds.tsv"]


def outcomes(cohort):
    return ["--pheno", cohort / "pheno.tsv", "--pheno-bounds", cohort / "bounds.tsv"]


@dataclass(frozen=True)
class Cohort:
    """Folder of `write_cohort`, and commands whose files lie there."""

    folder: Path

    @property
    def store(self):
        return self.folder / "genotypes.zarr"

    @property
    def work(self):
        """Work directory of the stages; that of a release is ``release.work``."""
        return self.folder / "work"

    @property
    def out(self):
        return self.folder / "release"

    @property
    def ledger(self):
        return self.folder / "ledger.sqlite"

    def ingest(self):
        succeeded(command(ingest, "--bfile", self.folder / "cohort", "--out", self.store))

    @property
    def accumulation(self):
        words = ["--genotypes", self.store, *outcomes(self.folder), "--work-dir", self.work]
        return list(map(str, [*words, "--ledger", self.ledger]))

    def accumulate(self, *options, budget=BUDGET):
        budget = () if "--non-private" in options else budget
        return command(accumulate, *self.accumulation, *budget, *options)

    def finalize(self, *options, budget=BUDGET):
        return command(
            finalize, "--work-dir", self.work, "--out", self.out, "--ledger", self.ledger,
            *budget, *options,
        )  # fmt: skip

    def publication(self, budget=BUDGET):
        words = ["--bfile", self.folder / "cohort", *outcomes(self.folder), *budget]
        return list(map(str, [*words, "--out", self.out, "--ledger", self.ledger]))

    def release(self, *options, budget=BUDGET):
        return command(release, *self.publication(budget), *options)

    def charges(self):
        if not self.ledger.exists():
            return ()
        with Ledger(self.ledger, create=False) as ledger:
            return tuple(charge for account in ledger.balances() for charge in account.charges)

    def copy_to(self, folder):
        """Copy the folder with all results, to be tampered with."""
        shutil.copytree(self.folder, folder)
        for path in (*folder.rglob("design.json"), *folder.rglob("run.log")):
            path.write_text(path.read_text().replace(str(self.folder), str(folder)))
        return Cohort(folder)


class PanelCohort:
    """Simulated people of the demo's panel, and releases over its linkage disequilibrium."""

    budget = ("--epsilon", 20, "--delta", 1e-6, "--accept-noise")

    def __init__(self, folder, people, *fixed, **choices):
        """Simulate people; the `fixed` options are those of every release."""
        self.folder, self.fixed = folder, fixed
        self.prefix = simulated(folder / "cohort", people, 3, missing=0.01, **choices)

    def release(self, *options, out="release", budget=budget):
        ledger = ("--ledger", self.folder / f"{out}.ledger") if budget else ()
        return command(
            release, "--bfile", self.prefix, "--pheno", f"{self.prefix}.pheno.tsv",
            "--pheno-bounds", f"{self.prefix}.pheno-bounds.tsv", "--ref-freq", f"{PANEL}.afreq",
            "--ld-panel", PANEL, *self.fixed, *budget, *ledger, "--out", self.folder / out,
            *options,
        )  # fmt: skip

    def released(self, out, *options, **changes):
        """Return the folder of a release, which verifies."""
        succeeded(self.release(*options, out=out, **changes))
        succeeded(command(verify, self.folder / out))
        return self.folder / out
