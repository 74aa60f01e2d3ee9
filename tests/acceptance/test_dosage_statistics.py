"""Statistics and releases of dosages: those of hard calls where these are equal, and exact sums."""

import random
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import zarr
from pgenlib import PgenWriter
from support.acceptance_inputs import clipped_blocks, norms
from support.command_io import digest_in
from support.dosage_definition import nearest_byte
from support.filesets import write_fileset_of
from support.small_cohort import BUDGET, command, refused, share_adjustment, succeeded

from primo_scale.accumulation import partials
from primo_scale.cli.commands import accumulate, ingest, release
from primo_scale.genotypes.source import SourceFiles, open_source
from primo_scale.kernels.dosage_bytes import UNITS
from primo_scale.run.design import load_design

N, D = 1003, 90
BLOCKS = ("--ld-blocks", "window:37")


class Cohort:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        rng = np.random.default_rng(7)
        p = rng.uniform(0.02, 0.98, D)
        calls = rng.binomial(2, p[:, None], (D, N)).astype(np.int8)
        calls[rng.random((D, N)) < 0.03] = -1
        write_fileset_of(folder / "bed", calls, range(1, D + 1))
        source = open_source(SourceFiles((folder / "bed",)))
        names, tables = source.variants.identifier, (source.variants, source.samples)
        self.dosages = np.clip(calls + rng.normal(0, 0.2, (D, N)), 0, 2).astype(np.float32)
        self.dosages[rng.random((D, N)) < 0.5] = 0.25
        self.dosages[calls < 0] = -9
        write_pgen(folder / "calls", calls, *tables)
        write_pgen(folder / "dosages", self.dosages, *tables)
        rows = zip(names, p, strict=True)
        (folder / "ref.afreq").write_text("#CHROM\tID\tREF\tALT\tALT_FREQS\tOBS_CT\n" + "".join(
            f"1\t{name}\tG\tA\t{freq:.6g}\t2000\n" for name, freq in rows))  # fmt: skip
        values = rng.normal(size=(N, 3)) + calls[:3].T
        (folder / "pheno.tsv").write_text("IID\tT\tU\tV\n" + "".join(
            "\t".join([f"I{i}", *(f"{value:.4f}" for value in row)]) + "\n"
            for i, row in enumerate(values)))  # fmt: skip
        (folder / "bounds.tsv").write_text("name\tlower\tupper\tmean\tsd\n" + "".join(
            f"{name}\t-4\t6\t1\t1.2\n" for name in "TUV"))  # fmt: skip
        self.ingest("bed", "--bfile")
        for name in ("calls", "dosages"):
            self.ingest(name, "--pfile", "--dosages")

    def ingest(self, name, *options):
        words = [options[0], self.folder / name, *options[1:]]
        succeeded(command(ingest, *words, "--out", self.store(name)))

    def store(self, name):
        return self.folder / f"{name}.zarr"

    @property
    def outcomes(self):
        return ("--pheno", self.folder / "pheno.tsv", "--pheno-bounds", self.folder / "bounds.tsv")

    @property
    def frequencies(self):
        return ("--ref-freq", self.folder / "ref.afreq")

    def sum(self, name, work, *options, at=None):
        found = succeeded(command(
            accumulate, "--genotypes", at or self.store(name), *self.outcomes,
            "--work-dir", work, "--ledger", f"{work}.sqlite", *options))  # fmt: skip
        return digest_in(found.stdout)


def write_pgen(prefix, copies, variants, people):
    """Write a PLINK 2 fileset of dosages of allele 1, negative where missing."""
    count = copies.shape[1]
    writer = PgenWriter(bytes(prefix.with_suffix(".pgen")), count, variant_ct=len(copies),
                        nonref_flags=False, dosage_present=True)  # fmt: skip
    for row in np.where(copies < 0, -9, copies).astype(np.float32):
        writer.append_dosages(row)
    writer.close()
    pairs = zip(people.family, people.individual, strict=True)
    table = ["#FID\tIID\n", *(f"{family}\t{individual}\n" for family, individual in pairs)]
    prefix.with_suffix(".psam").write_text("".join(table))
    columns = (variants.chromosome, variants.position, variants.identifier, variants.allele2,
               variants.allele1)  # fmt: skip
    prefix.with_suffix(".pvar").write_text("#CHROM\tPOS\tID\tREF\tALT\n" + "".join(
        "\t".join(map(str, row)) + "\n" for row in zip(*columns, strict=True)))  # fmt: skip


@pytest.fixture(scope="module")
def cohort(tmp_path_factory):
    return Cohort(tmp_path_factory.mktemp("dosages"))


OPTIONS = {
    "not private": ("--non-private",),
    "clipped records": (*BUDGET, "--row-norm", 8, *BLOCKS),
    "feature": (*BUDGET, "--privacy", "feature", *BLOCKS),
    "subsample": ("--epsilon", 4, "--delta", 1e-6, "--accept-noise", "--subsample", 300),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIONS)
def test_hard_calls_have_the_statistics_of_two_bits(name, cohort, tmp_path, monkeypatch):
    monkeypatch.setattr(partials.random, "SystemRandom", lambda: random.Random(1))
    options = (*OPTIONS[name], *cohort.frequencies, "--ledger", tmp_path / "ledger")
    digests = []
    for each in ("bed", "calls", "dosages"):
        if digests and "--non-private" not in options:
            share_adjustment(tmp_path / "bed", tmp_path / each)
        digests.append(cohort.sum(each, tmp_path / each, *options))
    assert digests[0] == digests[1] != digests[2]


def codes_of(cohort, design):
    """Return the codes of everybody by the definition, in fractions, shape (d, n)."""
    k, m = design.genotypes.multiplier.tolist(), design.genotypes.centre.tolist()
    units = np.floor(cohort.dosages.astype(np.float64) * UNITS + 0.5).astype(int)
    step = {each: nearest_byte(each) for each in np.unique(units).tolist()}
    return np.array(
        [[round(Fraction(k[j] * step[u], 127)) - m[j] if u >= 0 else 0 for u in row]
         for j, row in enumerate(units.tolist())]
    )  # fmt: skip


def test_statistics_of_dosages_are_exact_sums(cohort, tmp_path):
    """Some of the records are clipped."""
    work = tmp_path / "work"
    cohort.sum("dosages", work, *cohort.frequencies, "--row-norm", 8, *BLOCKS, *BUDGET)
    design = load_design(work / "design.json")
    statistics = zarr.open_group(work / "statistics.zarr")
    codes = codes_of(cohort, design).T
    assert len(np.unique(codes[:, 0])) > 20
    assert (norms(codes) > design.row_norm).mean() > 0.2
    parts = [codes[:, design.layout.variants(block)] for block in range(design.layout.n_blocks)]
    for block, x in enumerate(clipped_blocks(parts, design.block_norms, design.row_norm)[0]):
        np.testing.assert_array_equal(statistics[f"gram/{block}"][:], x.T @ x)


def test_dosages_without_public_frequencies_are_refused(cohort, tmp_path):
    """Without them, codes are -1, 0 and 1."""
    words = [*cohort.outcomes, "--non-private", "--ledger", tmp_path / "ledger"]
    summed = command(accumulate, "--genotypes", cohort.store("dosages"), *words,
                     "--work-dir", tmp_path / "work")  # fmt: skip
    refused(summed, 2, "public panel", "--ref-freq")
    released = command(release, "--pfile", cohort.folder / "dosages", "--dosages", *words,
                       "--out", tmp_path / "release", "--dry-run")  # fmt: skip
    refused(released, 2, "public panel", "--ref-freq")
