"""Ports for servers that a test starts, which nobody else gets meanwhile."""

from __future__ import annotations

import random
import socket
from itertools import islice

# Below those that systems give to whoever asks for any: between the choice and the server's start
# other processes ask for many.
_OURS = range(20_000, 32_000)


def free_ports(count: int) -> list[int]:
    """Ports of this machine's loopback that nobody uses now."""
    free = (port for port in random.sample(_OURS, len(_OURS)) if _is_free(port))
    return list(islice(free, count))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
