"""Damage to stored files."""

from __future__ import annotations

from pathlib import Path


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
