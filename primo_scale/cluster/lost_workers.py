"""Replacement of lost workers on this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from distributed import LocalCluster
from distributed.core import Status

_LOOK_SECONDS = 2.0
_GONE = (Status.closed, Status.failed)


@contextmanager
def workers_replaced(cluster: LocalCluster) -> Iterator[None]:
    """Keep the number of workers constant during the block.

    Dask restarts a dead worker only once. It gives up a worker that dies during the restart, or
    that takes longer than a quarter of a minute on a busy machine. After the loss of all workers a
    run would wait forever.
    """
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(cluster, len(cluster.worker_spec), ended))
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _watch(cluster: LocalCluster, wanted: int, ended: threading.Event) -> None:
    while not ended.wait(_LOOK_SECONDS):
        lost = [name for name in list(cluster.worker_spec) if _is_lost(cluster, name)]
        if lost or len(cluster.worker_spec) < wanted:
            # A worker that dies during its start is found by the next check.
            with suppress(RuntimeError, OSError):
                cluster.sync(_replace, cluster, lost, wanted)


def _is_lost(cluster: LocalCluster, name: object) -> bool:
    # One lookup only, because Dask's own thread may remove the worker at any time.
    worker = cluster.workers.get(name)
    return worker is None or worker.status in _GONE


async def _replace(cluster: LocalCluster, lost: list[object], wanted: int) -> None:
    await cluster.scale_down(lost)
    cluster.scale(wanted)
    await cluster
