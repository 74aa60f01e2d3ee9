"""Small stores, and damage to their files."""

from pathlib import Path

import numpy as np

from primo_scale.storage.chunks import write_array
from primo_scale.storage.groups import create_group, mark_complete, write_strings
from primo_scale.storage.locations import Location

VALUES = np.arange(24, dtype=np.int64).reshape(4, 6)


def write_store(path: Location, kind: str = "statistics", offset: int = 0) -> Location:
    """Write a finished store with two arrays and two text columns, and return its path."""
    group = create_group(path, kind, {"first": "guess-me"})
    for number, name in enumerate(("a", "b")):
        write_array(group, name, VALUES + 100 * number + offset, (2, 6))
    write_strings(group, "names", [f"x{offset}", "y"])
    write_strings(group, "others", ["y", f"x{offset}"])
    mark_complete(group, {"sha256": "confirm-me"})
    return path


def flip_a_bit(path: Path) -> None:
    """Change one bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def swap(one: Path, other: Path) -> None:
    """Exchange two files or directories."""
    one.rename(one.with_name("kept"))
    other.rename(one)
    one.with_name("kept").rename(other)
