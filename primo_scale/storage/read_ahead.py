"""Reading of the next part of an input while the current one is in use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_Part = TypeVar("_Part")
_Read = TypeVar("_Read")


def read_ahead(read: Callable[[_Part], _Read], parts: Iterable[_Part]) -> Iterator[_Read]:
    """Yield ``read(part)`` for every part, in order, and read the next part in a thread.

    Two parts are in memory at a time: the one in use and the one being read. Waiting for a disk or
    a network, verifying a checksum and copying bytes all release the interpreter lock.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="read-ahead") as thread:
        ahead = None
        for part in parts:
            following = thread.submit(read, part)
            if ahead is not None:
                yield ahead.result()
            ahead = following
        if ahead is not None:
            yield ahead.result()
