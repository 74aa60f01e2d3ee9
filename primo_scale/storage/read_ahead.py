"""Reading of the next part of an input while the current one is in use."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

_Part = TypeVar("_Part")
_Read = TypeVar("_Read")


def read_ahead(
    read: Callable[[_Part], _Read], parts: Iterable[_Part], threads: int = 1
) -> Iterator[_Read]:
    """Yield ``read(part)`` for every part, in order, and read the next parts in threads.

    The part in use and one for each thread are in memory at a time. Waiting for a disk or a
    network, checksums, copies of bytes and compiled code all release the interpreter lock.
    """
    with ThreadPoolExecutor(threads, thread_name_prefix="read-ahead") as pool:
        ahead = deque[Future[_Read]]()
        for part in parts:
            ahead.append(pool.submit(read, part))
            if len(ahead) > threads:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
