"""Workers of this machine that Dask gives up are started anew."""

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
    """Keep as many workers as there are now.

    Dask starts a worker that died again, but only once: one that dies while it is starting, or
    that is not back within a quarter of a minute on a busy machine, is given up, and with the last
    of them a run would wait for ever.
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
            # Dead again before it was there: the next look finds it.
            with suppress(RuntimeError, OSError):
                cluster.sync(_replace, cluster, lost, wanted)


def _is_lost(cluster: LocalCluster, name: object) -> bool:
    # Asked for once: Dask's own thread may forget the worker at any moment.
    worker = cluster.workers.get(name)
    return worker is None or worker.status in _GONE


async def _replace(cluster: LocalCluster, lost: list[object], wanted: int) -> None:
    await cluster.scale_down(lost)
    cluster.scale(wanted)
    await cluster
