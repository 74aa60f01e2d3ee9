"""What an error of a task on a worker tells: the worker's host, and what differs there."""

import pickle
import socket

import numpy as np
import pytest
from support.partials import partials_below

from primo_scale.accumulation import tasks
from primo_scale.accumulation.plan import Plan, RowTask
from primo_scale.accumulation.tasks import naming_worker, run_task
from primo_scale.errors import DamagedChunk, InputError, OnWorker, OtherVersion, ResourceError
from primo_scale.storage.block_matrices import BlockLayout
from primo_scale.version import __version__

PLAN = Plan(
    BlockLayout((0, 8), n_fixed=1, n_phenotypes=1), 16, row_group=8, stripe=8, rows_per_read=4,
    tile=8,
)  # fmt: skip


@pytest.fixture(autouse=True)
def node7(monkeypatch) -> None:
    """Let tasks of this process run on a worker with a name of its own."""
    monkeypatch.setattr(socket, "gethostname", lambda: "node7")


def test_a_worker_of_another_version_computes_nothing(tmp_path, monkeypatch) -> None:
    partials = partials_below(tmp_path, PLAN, np.ones((8, 4), np.int8))
    assert partials.address[-1] == __version__
    monkeypatch.setattr(tasks, "__version__", "0.2.9")
    with pytest.raises(OtherVersion) as refused:
        run_task(partials.address, RowTask(0))
    assert str(refused.value) == (
        f"worker on node7: primo_scale is 0.2.9 there, and {__version__} where the command runs. "
        f"Install primo_scale {__version__} for every worker, and start the workers again; the "
        "same command continues"
    )
    assert refused.value.exit_code == 3
    assert not partials.is_committed(RowTask(0))
    again = pickle.loads(pickle.dumps(refused.value))
    assert (type(again), str(again)) == (OtherVersion, str(refused.value))


def received(error, monkeypatch):
    """Return the error as the command on another machine shows it."""
    sent = pickle.loads(pickle.dumps(error))
    monkeypatch.setattr(socket, "gethostname", lambda: "login1")
    return naming_worker(sent)


def test_a_worker_that_does_not_see_the_files_is_named(tmp_path, monkeypatch) -> None:
    partials = partials_below(tmp_path, PLAN, np.ones((8, 4), np.int8))
    partials.path.rename(tmp_path / "not mounted")
    with pytest.raises(InputError, match="holds no partial statistics store") as raised:
        run_task(partials.address, RowTask(0))
    assert raised.value.on_worker == OnWorker("node7", lacks_path=True)
    (tmp_path / "not mounted").rename(partials.path)
    shown = received(raised.value, monkeypatch)
    assert type(shown) is InputError
    assert str(shown) == (
        f"{partials.path}: holds no partial statistics store on worker node7. The path exists for "
        "the command, and not for the worker. Workers need the same paths: mount the file system "
        "there, or use --object-store (cluster/README.md)"
    )


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (DamagedChunk("is damaged", where="/", remedy="Go"), "/: is damaged on worker node7. Go"),
        (InputError("is missing", where="/nowhere"), "/nowhere: is missing on worker node7"),
        (ResourceError("not enough memory"), "not enough memory on worker node7"),
    ],
)
def test_other_errors_keep_their_remedy_and_name_the_host(error, line, monkeypatch) -> None:
    shown = received(tasks.with_worker(error), monkeypatch)
    assert (type(shown), str(shown)) == (type(error), line)


def test_a_worker_of_this_machine_is_not_named() -> None:
    error = tasks.with_worker(InputError("is damaged", where="/"))
    assert naming_worker(error) is error
