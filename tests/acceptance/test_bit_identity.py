"""Statistics are bit-identical for any workers, chunks, plan, order, crashes and damage."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pandas as pd
import psutil
import pytest
from command_io import digest_in

from primo_scale.accumulation.checkpoint import open_partials
from primo_scale.accumulation.partials import Inputs, Partials
from primo_scale.accumulation.plan import Plan, default_plan
from primo_scale.accumulation.reduction import Reduction
from primo_scale.accumulation.summation import accumulate
from primo_scale.accumulation.tasks import run_task
from primo_scale.accumulation.thread_stream import run_on_threads
from primo_scale.genotypes.store import open_genotype_store
from primo_scale.outcomes.store import open_outcome_store
from primo_scale.run.design import load_design
from primo_scale.storage.groups import is_complete

ROOT = Path(__file__).resolve().parents[2]
PANEL = ROOT / "demo" / "1000g_eur343_chr22"
N_PEOPLE = 20_003  # three row groups, the last byte of a packed row not full
N_VARIANTS = 600
PARTIAL_ARRAYS = ["row_multipliers", "outcome_planes", "outcome_gram", "gram/4", "cross/4"]
HARMS = ["flipped", "truncated", "removed"]
CHUNKS = {"default": None, "narrow": (333, 20_004), "small": (1_000, 4_100)}
# Only detects hangs.
PATIENCE_SECONDS = 600


@dataclass(frozen=True)
class Simulated:
    """Simulated cohort with genotype stores of three chunk shapes."""

    prefix: Path
    stores: dict[str, Path]

    def options(self, work: Path, *, store: str = "default", pheno: Path | None = None) -> list:
        """Return options of ``accumulate`` that lead to many tasks and clipped rows."""
        files = {
            name: Path(f"{self.prefix}.{name}.tsv")
            for name in ("pheno", "covar", "pheno-bounds", "covar-bounds")
        }
        files["pheno"] = pheno or files["pheno"]
        return [
            "--genotypes", self.stores[store], "--ref-freq", f"{PANEL}.afreq",
            *(word for name, path in files.items() for word in (f"--{name}", path)),
            "--ld-blocks", "window:50", "--row-norm", 24, "--work-dir", work,
        ]  # fmt: skip


@pytest.fixture(scope="module")
def simulated(run, tmp_path_factory) -> Simulated:
    directory = tmp_path_factory.mktemp("simulated")
    prefix = directory / "cohort"
    run("simulate", "--bfile", PANEL, "--out", prefix, "--samples", N_PEOPLE, "--seed", 1,
        "--variants", N_VARIANTS, "--missing", 0.01, "--phenotypes", 3,
        "--prevalence", 0.2)  # fmt: skip
    stores = {}
    for name, shape in CHUNKS.items():
        stores[name] = directory / f"{name}.zarr"
        chunks = (
            () if shape is None else ("--chunk-variants", shape[0], "--chunk-samples", shape[1])
        )
        run("ingest", "--bfile", prefix, "--out", stores[name], *chunks)
    return Simulated(prefix, stores)


@pytest.fixture(scope="module")
def undisturbed(simulated: Simulated, run, tmp_path_factory) -> Path:
    """Provide the work directory of an undisturbed run with one worker."""
    work = tmp_path_factory.mktemp("undisturbed") / "work"
    done = run("accumulate", *simulated.options(work), "--workers", 1)
    (work / "printed").write_text(done.stdout)
    return work


@pytest.fixture(scope="module")
def digest(undisturbed: Path) -> str:
    """Provide the digest of the undisturbed run."""
    return digest_in((undisturbed / "printed").read_text())


def test_three_workers_and_small_chunks(simulated, digest, run, tmp_path) -> None:
    options = simulated.options(tmp_path / "work", store="small")
    done = run("accumulate", *options, "--workers", 3)
    assert digest_in(done.stdout) == digest


def test_threads_narrow_chunks_and_another_order_of_the_phenotypes(
    simulated, digest, run, tmp_path
) -> None:
    rows = pd.read_csv(f"{simulated.prefix}.pheno.tsv", sep="\t", dtype=str)
    permuted = tmp_path / "permuted.tsv"
    rows.sample(frac=1, random_state=5).to_csv(permuted, sep="\t", index=False)
    options = simulated.options(tmp_path / "work", store="narrow", pheno=permuted)
    assert digest_in(run("accumulate", *options).stdout) == digest


@pytest.mark.slow
def test_killed_clients_and_damaged_chunks(simulated, digest, run, environment, tmp_path) -> None:
    """Two kills with damage between them and one SIGTERM do not change the statistics."""
    work = tmp_path / "work"
    arguments = [*simulated.options(work), "--workers", 1]
    slow = Path(__file__).with_name("slow_tasks.py")
    environment = {**environment, "DASK_DISTRIBUTED__WORKER__PRELOAD": f'["{slow}"]'}

    with started("accumulate", arguments, environment) as client:
        wait_for_chunks(work, client, more_than=3)
        workers = psutil.Process(client.pid).children(recursive=True)
        client.kill()  # its workers end by themselves
        client.wait()
    assert psutil.wait_procs(workers, timeout=PATIENCE_SECONDS)[1] == []
    assert not is_complete(work / "statistics.zarr", "statistics")
    assert not (work / "design.json").exists()

    committed = chunks_of(work / "partials.zarr")
    (arrays,) = (work / "partials.zarr").glob("*/code_table/..")
    do_harm(arrays / "code_table" / "c" / "0" / "0", "flipped")
    do_harm(arrays / "row_multipliers" / "c" / "0" / "0", "truncated")
    with started("accumulate", arguments, environment) as client:
        wait_for_chunks(work, client, more_than=len(committed) + 3)
        os.killpg(client.pid, signal.SIGKILL)
        client.wait()
    assert not is_complete(work / "statistics.zarr", "statistics")

    committed = chunks_of(work / "partials.zarr")
    with started("accumulate", arguments, environment) as client:
        wait_for_chunks(work, client, more_than=len(committed) + 3)
        client.terminate()
        _, errors = client.communicate(timeout=PATIENCE_SECONDS)
        assert client.returncode == 5
    (line,) = [line for line in errors.splitlines() if line.startswith("error:")]
    assert line.startswith("error: interrupted. To continue: ")
    assert "Traceback" not in errors
    assert errors.splitlines()[-1] == line

    assert digest_in(run("accumulate", *arguments).stdout) == digest
    assert not (work / "partials.zarr").exists()
    # The finished statistics are reused.
    assert digest_in(run("accumulate", *arguments).stdout) == digest


@pytest.mark.parametrize(
    ("row_group", "stripe", "rows_per_read", "tile", "kernel"),
    [
        (8_192, 8_192, 8_192, 2_048, "auto"),
        (4_096, 2_048, 1_024, 32, "auto"),
        (20_480, 20_480, 20_480, 19, "auto"),
        (8_192, 8_192, 4_096, 32, "float32"),
    ],
)
def test_plan_kernel_and_order_of_tasks(
    row_group, stripe, rows_per_read, tile, kernel, simulated, undisturbed, digest, tmp_path
) -> None:
    partials = empty_partials(
        simulated, undisturbed, tmp_path / "partials.zarr",
        row_group=row_group, stripe=stripe, rows_per_read=rows_per_read, tile=tile,
    )  # fmt: skip
    partials = replace(partials, kernel=kernel)
    shuffle = random.Random(row_group).shuffle
    with Reduction(partials, tmp_path / "statistics.zarr") as reduction:
        for tasks in (list(partials.plan.row_tasks()), list(partials.plan.tile_tasks())):
            shuffle(tasks)
            for task in tasks:
                run_task(partials.address, task)
                reduction.add(task)
        assert reduction.finish().sha256 == digest


@pytest.fixture(scope="module")
def half_done(simulated: Simulated, undisturbed: Path, tmp_path_factory) -> Partials:
    """Provide a store with all row tasks and half of the tile tasks of three row groups."""
    path = tmp_path_factory.mktemp("half-done") / "partials.zarr"
    partials = empty_partials(
        simulated, undisturbed, path, row_group=8_192, stripe=8_192, rows_per_read=4_096
    )
    for task in [*partials.plan.row_tasks(), *list(partials.plan.tile_tasks())[::2]]:
        run_task(partials.address, task)
    return partials


@pytest.mark.parametrize(
    ("array", "harm"),
    [
        *((array, "swapped") for array in PARTIAL_ARRAYS),
        *zip(PARTIAL_ARRAYS, HARMS + HARMS, strict=False),
    ],
)
def test_a_damaged_partial_is_computed_again(array, harm, half_done, digest, tmp_path) -> None:
    partials = Partials(tmp_path / "partials.zarr", half_done.store_id)
    shutil.copytree(half_done.path, partials.path)
    one, other = chunks_of(partials.path / partials.store_id / array)[:2]
    if harm == "swapped":
        assert one.stat().st_size == other.stat().st_size
        content = one.read_bytes()
        assert other.read_bytes() != content
        one.write_bytes(other.read_bytes())
        other.write_bytes(content)
    else:
        do_harm(one, harm)
    on_threads = partial(run_on_threads, threads=2)
    raw = accumulate(on_threads, partials, tmp_path / "statistics.zarr", lambda done, total: None)
    assert raw.sha256 == digest


def empty_partials(simulated: Simulated, work: Path, path: Path, **cut: int) -> Partials:
    """Return an empty checkpoint of the undisturbed run, optionally with another plan."""
    design = load_design(work / "design.json")
    plan: Plan = replace(default_plan(design.layout, design.n_samples), **cut)
    genotypes = simulated.stores["default"]
    inputs = Inputs(
        genotypes=genotypes,
        outcomes=work / "outcomes.zarr",
        clipping_rule=design.clipping_rule,
        subsample=design.subsample,
        digests={
            "genotypes": open_genotype_store(genotypes).identity_digest,
            "outcomes": open_outcome_store(work / "outcomes.zarr").content_digest,
        },
    )
    return open_partials(path, plan, inputs, design.genotypes.code_table)


def chunks_of(store: Path) -> list[Path]:
    """Return the committed chunks below `store`, without temporary files.

    os.walk tolerates that a run deletes files meanwhile.
    """
    return sorted(
        Path(directory) / name
        for directory, _, names in os.walk(store)
        if "c" in Path(directory).relative_to(store).parts
        for name in names
        if name.isdigit()
    )


def do_harm(chunk: Path, harm: str) -> None:
    content = bytearray(chunk.read_bytes())
    if harm == "removed":
        chunk.unlink()
    elif harm == "truncated":
        chunk.write_bytes(content[: len(content) // 2])
    else:
        content[len(content) // 3] ^= 0b100
        chunk.write_bytes(content)


@contextmanager
def started(
    command: str, arguments: list[object], environment: dict[str, str]
) -> Iterator[subprocess.Popen[str]]:
    """Start a command in its own process group, which is killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", f"pipelines.{command}", *map(str, arguments)],
        cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait_for_chunks(work: Path, client: subprocess.Popen[str], *, more_than: int) -> None:
    """Wait until the run is in the middle of its accumulation."""
    until = time.monotonic() + PATIENCE_SECONDS
    while len(chunks_of(work / "partials.zarr")) <= more_than:
        assert client.poll() is None, client.stderr.read() if client.stderr else "it has ended"
        assert time.monotonic() < until
        time.sleep(0.02)
