"""What an error of a task on a worker tells: the worker's host, and what differs there."""

import pickle
import socket

import numpy as np
import pytest
from support.partials import partials_below

from primo_scale.accumulation import tasks
from primo_scale.accumulation.plan import Plan, RowTask
from primo_scale.accumulation.tasks import run_task
from primo_scale.errors import InputError
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
    with pytest.raises(InputError) as refused:
        run_task(partials.address, RowTask(0))
    assert "worker node7. Install primo_scale" in str(refused.value)
    assert not partials.is_committed(RowTask(0))
    again = pickle.loads(pickle.dumps(refused.value))
    assert (type(again), str(again)) == (InputError, str(refused.value))


def test_a_worker_that_does_not_see_the_files_is_named(tmp_path) -> None:
    partials = partials_below(tmp_path, PLAN, np.ones((8, 4), np.int8))
    partials.path.rename(tmp_path / "not mounted")
    with pytest.raises(InputError) as raised:
        run_task(partials.address, RowTask(0))
    assert f"{partials.path}: holds no partial statistics store on worker node7." in str(
        raised.value
    )
