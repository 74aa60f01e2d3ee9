"""Interrupted, continued and refused ingests, and their memory."""

import os
import threading
from pathlib import Path

import numpy as np
import pytest
from support.ingest_runs import Stop, bed_reader_dosages, run, stop_after

from primo_scale import machine
from primo_scale.errors import InputError, ResourceError
from primo_scale.genotypes import ingest as ingest_module
from primo_scale.genotypes.filters import Selection
from primo_scale.genotypes.store import open_genotypes


def test_a_stopped_run_continues(base, tmp_path):
    destination = tmp_path / "g.zarr"
    with pytest.raises(Stop):
        run(base, destination, on_progress=stop_after(2))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ingest")]
    assert not destination.exists()
    partial = tmp_path / "g.zarr.partial"
    before = (partial / "store.zarr/genotypes/c/1/0").stat().st_mtime_ns
    (partial / "store.zarr/genotypes/c/0/2").unlink()
    # A kill during the last partition leaves an incomplete chunk, a temporary file and no record.
    (partial / "partitions/0000003.npz").unlink(missing_ok=True)
    torn = partial / "store.zarr/genotypes/c/3"
    torn.mkdir(exist_ok=True)
    (torn / "0").write_bytes(b"torn")
    (torn / "1.abc.partial").write_bytes(b"")
    seen: list[int] = []
    store = run(base, destination, on_progress=lambda done, total: seen.append(done))
    # The first lost a chunk, and the third was in progress when the run was stopped.
    assert seen in ([1, 2, 3, 4], [2, 3, 4])
    assert (store.path / "genotypes/c/1/0").stat().st_mtime_ns == before
    assert not list(store.path.rglob("*.partial"))
    assert not partial.exists()
    np.testing.assert_array_equal(open_genotypes(store.path).values, bed_reader_dosages(base))


def test_a_finished_store_is_reused_for_the_same_request_only(base, tmp_path):
    destination = tmp_path / "g.zarr"
    first = run(base, destination)
    touched = (destination / "zarr.json").stat().st_mtime_ns
    assert run(base, destination) == first
    assert (destination / "zarr.json").stat().st_mtime_ns == touched
    source = Path(f"{base}.bed")
    source.write_bytes(source.read_bytes())  # rewritten and equal
    assert run(base, destination) == first
    with pytest.raises(InputError, match="chunk shape"):
        run(base, destination, chunk_shape=(8, 12))
    (tmp_path / "out").write_text("rs486563")
    with pytest.raises(InputError, match="variants"):
        run(base, destination, Selection(exclude=tmp_path / "out"))
    (tmp_path / "other").mkdir()
    (tmp_path / "other/precious").write_text("data")
    with pytest.raises(InputError, match="not a finished genotype store"):
        run(base, tmp_path / "other")
    assert (tmp_path / "other/precious").read_text() == "data"


@pytest.mark.parametrize(("stopped_after", "flipped"), [(2, 0xFF), (4, 0xFF), (2, 0)])
def test_a_changed_input_is_refused_by_name(base, tmp_path, stopped_after, flipped):
    """A change with equal size and time, after two of four partitions and after the end."""
    destination = tmp_path / "g.zarr"
    if stopped_after == 2:
        with pytest.raises(Stop):
            run(base, destination, on_progress=stop_after(2))
    else:
        run(base, destination)
    source = Path(f"{base}.bed")
    before = source.stat()
    content = bytearray(source.read_bytes())
    content[10] ^= flipped
    source.write_bytes(content)
    if flipped:
        os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(InputError, match="other sources"):
        run(base, destination)


def test_an_input_that_changes_during_the_run_is_refused(base, tmp_path):
    def change(done: int, total: int) -> None:
        if done == total:
            with Path(f"{base}.bim").open("a") as file:
                file.write("1\tlate\t0\t1\tA\tC\n")

    with pytest.raises(InputError, match="changed while it was read"):
        run(base, tmp_path / "g.zarr", on_progress=change)
    assert not (tmp_path / "g.zarr").exists()


def test_too_little_disk_space_is_refused_before_any_partition(base, tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "free_disk", lambda _: 1 << 10)
    with pytest.raises(ResourceError, match=r"1 KiB free; limit [0-9]+ KiB needed"):
        run(base, tmp_path / "g.zarr")


def test_a_full_disk_is_explained_and_the_run_can_continue(base, tmp_path, monkeypatch):
    def full(*args: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(ingest_module, "write_partition", full)
        with pytest.raises(ResourceError, match="the disk is full"):
            run(base, tmp_path / "g.zarr")
    assert not (tmp_path / "g.zarr").exists()
    run(base, tmp_path / "g.zarr")
