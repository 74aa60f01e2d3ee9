"""What an error of a task on a worker tells: the worker's host, and what differs there."""

from __future__ import annotations

import pickle
import socket

import numpy as np
import pytest
from example_partials import partials_below

from primo_scale.accumulation import worker_errors
from primo_scale.accumulation.plan import Plan, RowTask
from primo_scale.accumulation.tasks import run_task
from primo_scale.errors import OtherVersion
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
    monkeypatch.setattr(worker_errors, "__version__", "0.2.9")
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
