"""What a process may use, where a control group gives it less than the machine has."""

from __future__ import annotations

import psutil
import pytest

from primo_scale import machine
from primo_scale.in_words import bytes_in_words

GIB = 2**30


@pytest.fixture
def cgroup(tmp_path, monkeypatch):
    """Files of a control group, as the kernel shows them."""
    monkeypatch.setattr(machine, "_CGROUP", tmp_path)

    def write(**files: str) -> None:
        for name, text in files.items():
            (tmp_path / name.replace("_", ".", 1)).write_text(text)

    return write


@pytest.fixture
def roomy(monkeypatch):
    memory = psutil.virtual_memory()._replace(available=100 * GIB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)


def test_without_a_limit_memory_is_what_the_machine_has(cgroup, roomy):
    assert machine.available_memory() == 100 * GIB
    cgroup(memory_max="max\n", memory_current=f"{3 * GIB}\n")
    assert machine.available_memory() == 100 * GIB


def test_files_in_the_page_cache_take_nothing_from_a_limit(cgroup, roomy):
    """Of 8 GiB seven are used: four for files, which the kernel gives up when somebody asks."""
    cgroup(memory_max=f"{8 * GIB}\n", memory_current=f"{7 * GIB}\n")
    assert machine.available_memory() == GIB
    stat = f"anon {3 * GIB}\nfile {4 * GIB}\ninactive_file {3 * GIB}\nactive_file {GIB}\n"
    cgroup(memory_stat=stat)
    assert machine.available_memory() == 5 * GIB


def test_free_disk_is_that_of_the_nearest_directory_there_is(tmp_path):
    there = machine.free_disk(tmp_path)
    assert abs(machine.free_disk(tmp_path / "a" / "b") - there) < GIB


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 KiB"), (5 << 20, "5120 KiB"), (10 << 20, "10 MiB"), (25 * GIB, "25.0 GiB")],
)
def test_bytes_in_words(size, text):
    assert bytes_in_words(size) == text
