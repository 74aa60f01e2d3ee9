"""Runs with genotypes and partial sums in a bucket give the same integers as on a disk."""

import os
from pathlib import Path

import pytest
from support.bucket_runs import BUDGET, ledger, options, run
from support.command_io import PANEL, digest_in, table_options
from support.faulty_proxy import SECRET, seeded
from support.processes import command_of, started, wait_until

from primo_scale.genotypes.store import open_genotype_store
from primo_scale.storage.stores import store_at


@pytest.fixture(scope="module")
def on_disk(cohort, tmp_path_factory) -> str:
    work = tmp_path_factory.mktemp("local") / "work"
    return digest_in(run("accumulate", "--genotypes", f"{cohort}.zarr", *options(cohort, work)))


def test_a_release_through_a_faulty_bucket_has_the_same_integers(
    cohort, on_disk, prefix, proxy, tmp_path
):
    """Genotypes are copied to the bucket; workers read and commit there."""
    faulty = proxy(seeded(3, 0.1))
    shared, work = prefix / "run", tmp_path / "work"
    arguments = [*options(cohort, work), "--bfile", str(cohort), "--object-store", str(shared),
                 "--out", str(tmp_path / "release"), "--ledger", str(ledger(tmp_path)),
                 "--cohort", "c"]  # fmt: skip
    assert f"KiB in {shared}" in run("gwas_release", *arguments, "--dry-run")
    assert list(store_at(shared).all_keys()) == []
    output = run("gwas_release", *arguments)
    assert digest_in(output) == on_disk
    assert (tmp_path / "release" / "release.json").is_file()
    n_faults = sum(number for fault, number in faulty.traffic.faults.items() if fault != "none")
    assert n_faults > 10  # a tenth of hundreds of requests
    assert {path.name for path in work.glob("*.zarr")} == {"genotypes.zarr"}
    left = {key.partition("/")[0] for key in store_at(shared).all_keys()}
    assert left == {"claim", "genotypes.zarr", "outcomes.zarr", "statistics.zarr"}
    logged = "".join(path.read_text() for path in work.iterdir() if path.is_file())
    assert SECRET not in output + logged
    assert digest_in(run("gwas_release", *arguments)) == on_disk  # a repetition does nothing
    # A purge also empties the bucket, and the same command finds the finished release.
    assert store_at(shared).put_if_absent("mine.txt", b"the user's own")
    assert "left there: mine.txt" in run("gwas_release", *arguments, "--purge-intermediates")
    assert list(store_at(shared).all_keys()) == ["mine.txt"]
    assert {path.name for path in work.iterdir()} == {"lock", "purged.json"}
    assert "published already" in run("gwas_release", *arguments)


def test_a_purge_leaves_nothing_of_a_private_release_in_the_bucket(cohort, prefix, tmp_path):
    shared = prefix / "run"
    arguments = [*options(cohort, tmp_path / "work", BUDGET), "--bfile", str(cohort),
                 "--object-store", str(shared), "--out", str(tmp_path / "release"),
                 "--ledger", str(ledger(tmp_path)), "--cohort", "c"]  # fmt: skip
    run("gwas_release", *arguments)
    before = {key.partition("/")[0] for key in store_at(shared).all_keys()}
    assert {"outcomes.zarr", "unadjusted_outcomes.zarr"} <= before
    run("gwas_release", *arguments, "--purge-intermediates")
    assert list(store_at(shared).all_keys()) == []
    score, shared = tmp_path / "score.txt", prefix / "scores"  # of a store that the user gives
    variants = open_genotype_store(Path(f"{cohort}.zarr")).variants
    rows = zip(variants.identifier, variants.allele1, variants.allele2, strict=True)
    lines = [
        "rsID effect_allele other_allele effect_weight",
        *(" ".join([*row, "1"]) for row in rows),
    ]
    score.write_text("".join(line.replace(" ", "\t") + "\n" for line in lines))
    arguments = [*table_options(cohort), "--ref-freq", f"{PANEL}.afreq", "--ld-panel", PANEL,
                 "--score-features", score, *BUDGET, "--genotypes", f"{cohort}.zarr",
                 "--object-store", shared, "--out", tmp_path / "stack",
                 "--ledger", tmp_path / "other.sqlite", "--purge-intermediates"]  # fmt: skip
    run("gwas_release", *arguments)
    assert list(store_at(shared).all_keys()) == [] and Path(f"{cohort}.zarr").is_dir()


def test_a_killed_run_continues_with_intact_objects(cohort, on_disk, prefix, proxy, tmp_path):
    """After a kill, two damaged partial sums are computed again and all others are kept."""
    proxy(lambda method, path, attempt: "slow" if method == "PUT" and "/gram/" in path else None)
    shared, genotypes = prefix / "run", prefix / "genotypes.zarr"
    run("copy_genotypes", "--genotypes", f"{cohort}.zarr", "--to", genotypes)
    arguments = [*options(cohort, tmp_path / "work"), "--genotypes", str(genotypes),
                 "--object-store", str(shared)]  # fmt: skip
    partials = store_at(shared / "partials.zarr")

    def committed() -> set[str]:
        return {key for key in partials.all_keys() if "gram/" in key and "/c/" in key}

    def sums_of(blocks: set[str]) -> set[str]:
        return {key for key in blocks if "outcome_gram" not in key}

    command = command_of("accumulate", arguments)
    with started(command, os.environ, tmp_path / "stderr") as process:
        wait_until(lambda: len(sums_of(committed())) >= 2, of=process)
    said = run("status", tmp_path / "work", exit_code=5)
    assert ": accumulate, stopped" in said
    before = sums_of(committed())
    assert 2 <= len(before) < 5
    torn, flipped = sorted(before)[:2]
    for key in (torn, flipped):
        content = partials.read(key)
        partials.remove(key)
        changed = content[:-9] if key == torn else bytes([content[0] ^ 1]) + content[1:]
        assert partials.put_if_absent(key, changed)
    again = proxy(lambda method, path, attempt: None)
    assert digest_in(run("accumulate", *arguments)) == on_disk
    puts = [path.partition("partials.zarr/")[2] for path in again.paths_put()]
    assert sums_of({key for key in puts if "gram/" in key and "/c/" in key}) & before == {
        torn, flipped,
    }  # fmt: skip


def test_a_copy_continues_and_is_verified(cohort, prefix, tmp_path):
    source, there = open_genotype_store(Path(f"{cohort}.zarr")), prefix / "genotypes.zarr"
    copy = ("copy_genotypes", "--genotypes", f"{cohort}.zarr", "--to", there)
    target, origin = store_at(there), store_at(source.path)
    # An interrupted copy, with one wrong chunk.
    for key in ("genotypes/c/0/0", "genotypes/c/1/0", "sample_family/zarr.json"):
        assert target.put_if_absent(key, origin.read(key))
    target.remove("genotypes/c/1/0")
    target.put_if_absent("genotypes/c/1/0", origin.read("genotypes/c/0/0"))
    assert "differs from the original" in run(*copy, exit_code=3)
    unfinished = run("accumulate", "--genotypes", there, *options(cohort, tmp_path / "work"),
                     exit_code=3)  # fmt: skip
    assert "holds no genotypes store" in unfinished
    run(*copy)
    run(*copy)
    assert sorted(target.all_keys()) == sorted(origin.all_keys())
    copied = open_genotype_store(there)
    everyone = (slice(0, source.n_variants), slice(0, source.n_samples))
    assert copied.read_packed(*everyone).tobytes() == source.read_packed(*everyone).tobytes()
    assert copied.identity_digest == source.identity_digest
    people = tmp_path / "keep.txt"
    people.write_text("\n".join(map(str, source.samples.individual[:200])) + "\n")
    other = tmp_path / "other.zarr"
    run("ingest", "--bfile", cohort, "--keep", people, "--out", other)
    assert "is not the result of this request" in run(
        "copy_genotypes", "--genotypes", other, "--to", there, exit_code=3
    )
    # Copy back to a disk.
    run("copy_genotypes", "--genotypes", there, "--to", tmp_path / "back.zarr")
    assert open_genotype_store(tmp_path / "back.zarr").filter_counts == source.filter_counts
    import primo_scale

    assert primo_scale.open_genotypes(str(there)).shape == (source.n_variants, source.n_samples)


def test_options_for_local_paths_refuse_urls(cohort, tmp_path, prefix):
    inputs = ("--genotypes", "g", "--pheno", "p")
    for command, *words in (("ingest", "--out"), ("accumulate", *inputs, "--work-dir")):
        output = run(command, *words, prefix, exit_code=2)
        assert "is a URL" in output and not Path("s3:").exists()
    other = options(cohort, tmp_path / "work")
    output = run("accumulate", "--genotypes", f"{cohort}.zarr", *other, "--object-store",
                 tmp_path, exit_code=2)  # fmt: skip
    assert "not a URL" in output
