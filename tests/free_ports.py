"""Free ports for servers that tests start."""

from __future__ import annotations

import random
import socket
from itertools import islice

# Below the ephemeral ports, which other processes may get before the server starts.
_OURS = range(20_000, 32_000)


def free_ports(count: int) -> list[int]:
    """Return free ports of the loopback interface."""
    free = (port for port in random.sample(_OURS, len(_OURS)) if _is_free(port))
    return list(islice(free, count))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
