"""Statistics and releases of dosages: those of hard calls where these are equal, and exact sums."""

import random
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import zarr
from pgenlib import PgenWriter
from support.acceptance_inputs import clipped_blocks, norms
from support.command_io import PANEL, digest_in, simulated
from support.documents import read_document
from support.dosage_definition import nearest_byte
from support.filesets import write_fileset_of
from support.small_cohort import BUDGET, command, refused, share_adjustment, succeeded

from primo_scale.accumulation import partials
from primo_scale.accumulation.needs import needs
from primo_scale.accumulation.plan import Plan
from primo_scale.cli.commands import accumulate, evaluate, ingest, release, verify
from primo_scale.errors import InputError
from primo_scale.evaluation.scores import people_of_store
from primo_scale.genotypes.ingest import copy_genotypes
from primo_scale.genotypes.source import SourceFiles, open_source
from primo_scale.genotypes.store import (
    DOSAGES,
    HARD_CALLS,
    PACKINGS,
    copies_of_hard_calls,
    open_genotype_store,
)
from primo_scale.kernels.dosage_bytes import UNITS
from primo_scale.run.design import load_design
from primo_scale.storage.groups import FORMAT_VERSIONS, VERSION_ATTRIBUTE

N, D = 1003, 90
BLOCKS = ("--ld-blocks", "window:37")


class Cohort:
    """Folder with hard calls in two formats, dosages, and outcomes of the same people."""

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
        """Return the digest of the statistics."""
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


@pytest.mark.slow
def test_components_of_hard_calls_are_those_of_two_bits(tmp_path):
    cohort = simulated(tmp_path / "cohort", 401, 3, variants=200, phenotypes=1, missing=0.02)
    source = open_source(SourceFiles((cohort,)))
    packed = np.empty((200, 101), dtype=np.uint8)
    source.read_into(packed, np.arange(200), np.arange(401))
    write_pgen(cohort, copies_of_hard_calls(packed, 401), source.variants, source.samples)
    found = []
    for name, words in {"bed": ["--bfile"], "bytes": ["--dosages", "--pfile"]}.items():
        store, work = tmp_path / f"{name}.zarr", tmp_path / name
        succeeded(command(ingest, *words, cohort, "--out", store))
        succeeded(command(
            accumulate, "--genotypes", store, "--pheno", f"{cohort}.pheno.tsv",
            "--pheno-bounds", f"{cohort}.pheno-bounds.tsv", "--ref-freq", f"{PANEL}.afreq",
            "--ld-panel", PANEL, "--epsilon", 50, "--delta", 1e-6, "--accept-noise",
            "--work-dir", work, "--ledger", tmp_path / f"{name}.ledger"))  # fmt: skip
        assert load_design(work / "design.json").components is not None
        found.append(zarr.open_group(work / "statistics.zarr")["gram/0"][:])
    assert found[0].any()
    np.testing.assert_array_equal(*found)  # those of phenotypes depend on the noise


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


@pytest.mark.slow
def test_an_interrupted_run_continues_in_a_copy_of_the_store(cohort, tmp_path):
    """The copy is verified by its checksums; the tasks that are missing are computed there."""
    options = (*cohort.frequencies, *BLOCKS, *BUDGET, "--ledger", tmp_path / "ledger")
    digest = cohort.sum("dosages", tmp_path / "once", *options)
    share_adjustment(tmp_path / "once", tmp_path / "copied")
    copy = copy_genotypes(open_genotype_store(cohort.store("dosages")), tmp_path / "copy")
    assert copy.packing is DOSAGES
    assert cohort.sum("", tmp_path / "copied", *options, at=tmp_path / "copy") == digest
    with pytest.raises(InputError, match="another kind"):
        copy_genotypes(open_genotype_store(cohort.store("bed")), tmp_path / "copy")


@pytest.mark.slow
def test_a_release_of_dosages_verifies_and_is_evaluated_with_them(cohort, tmp_path):
    """The held-out people are scored, and files of the same people are read with --dosages."""
    out, prefix = tmp_path / "release", cohort.folder / "dosages"
    succeeded(command(
        release, "--pfile", prefix, "--dosages", *cohort.outcomes, *cohort.frequencies,
        "--epsilon", 50, "--delta", 1e-6, "--accept-noise", "--hold-out", 0.2,
        "--ledger", tmp_path / "ledger", "--out", out))  # fmt: skip
    succeeded(command(verify, out))
    sources = read_document(out)["public_inputs"]["sources"]
    genotypes = [source for source in sources if source["input"] == "Genotypes"]
    assert [(source["value"], source["source"]) for source in genotypes] == [
        ("dosages in steps of 1/127", "--dosages")
    ]
    assert open_genotype_store(tmp_path / "release.work/genotypes.zarr").packing is DOSAGES
    tables = []
    for name, words in {
        "files": ("--pfile", prefix, "--dosages"),
        "store": ("--genotypes", cohort.store("dosages")),
        "calls": ("--pfile", prefix),
    }.items():
        outcomes = ("--pheno", cohort.folder / "pheno.tsv")
        succeeded(command(evaluate, *words, "--weights", out, *outcomes, "--out", tmp_path / name))
        results = next((tmp_path / name).glob("*.tsv")).read_text()
        tables.append(results.splitlines()[1:])  # the first line names the files
    assert tables[0] == tables[1] != tables[2]


def test_people_held_out_have_their_own_dosages(cohort):
    store = open_genotype_store(cohort.store("dosages"))
    people = np.array([3, 4, 500, 901])
    read = people_of_store(store, slice(0, N), people).read(np.arange(5, 60))
    np.testing.assert_array_equal(read, store.read_packed(slice(5, 60), slice(0, N))[:, people])


# ---- Refusals and needs --------------------------------------------------------------------------


def test_dosages_without_public_frequencies_are_refused(cohort, tmp_path):
    """Without them, codes are -1, 0 and 1."""
    words = [*cohort.outcomes, "--non-private", "--ledger", tmp_path / "ledger"]
    summed = command(accumulate, "--genotypes", cohort.store("dosages"), *words,
                     "--work-dir", tmp_path / "work")  # fmt: skip
    refused(summed, 2, "public panel", "--ref-freq")
    released = command(release, "--pfile", cohort.folder / "dosages", "--dosages", *words,
                       "--out", tmp_path / "release", "--dry-run")  # fmt: skip
    refused(released, 2, "public panel", "--ref-freq")


def test_a_store_of_dosages_has_a_version_of_its_own(cohort, tmp_path):
    """A reader that knows only hard calls refuses the kind, and one of this kind its version."""
    assert set(PACKINGS) <= set(FORMAT_VERSIONS)
    copy = copy_genotypes(open_genotype_store(cohort.store("dosages")), tmp_path / "copy")
    attributes = zarr.open_group(copy.path, mode="r+").attrs
    assert attributes["primo_scale_kind"] == "dosages"
    attributes[VERSION_ATTRIBUTE] = 0
    with pytest.raises(InputError, match="dosages store has an unknown format version"):
        open_genotype_store(copy.path)


def test_dosages_need_more_memory(cohort, tmp_path):
    cohort.sum("bed", tmp_path / "work", "--non-private", *cohort.frequencies)
    design = load_design(tmp_path / "work" / "design.json")
    plan = Plan(design.layout, N, 2 * 512, 2 * 512, 512)
    two_bits, bytes_ = (
        needs(plan, (16, 128), each, kernel="vnni", largest_code=127, multiplier_columns=1)
        for each in (HARD_CALLS, DOSAGES)
    )
    assert bytes_.worker_bytes > two_bits.worker_bytes
