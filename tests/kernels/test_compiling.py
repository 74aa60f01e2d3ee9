"""Kernels from Numba's cache: nothing stale, damaged or of somebody else, for many processes."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from primo_scale.kernels import compiling
from primo_scale.kernels.compiling import (
    I8,
    I32,
    I64,
    compiled,
    emitted,
    function,
    inlined,
    pointer,
    word,
)

LEFT, RIGHT = np.array([1.5, -2.0, 4.0]), np.array([2.0, 1.0, 0.25])


@inlined
def twice(value):
    return value + value


def dot(left, scale, right):
    """Return 2 * scale * (left @ right), rounded down."""
    total = 0.0
    for i in range(left.shape[0]):
        total += twice(left[i] * scale) * right[i]
    return np.int64(np.floor(total))


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    compiling._cache_folder.cache_clear()
    yield tmp_path / "cache"
    compiling._cache_folder.cache_clear()


def compilations(left=LEFT):
    """Call a fresh kernel, and return how many functions it had to compile."""
    kernel = compiled(dot)
    assert kernel(left, 3, RIGHT) == 12
    return len(kernel.overloads) - sum(kernel.stats.cache_hits.values())


def test_the_private_cache_serves_what_was_compiled(cache):
    assert [compilations() for _ in range(3)] == [1, 0, 0]
    (folder,) = cache.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize("damage", ["truncated", "empty", "noise"])
def test_a_damaged_file_is_compiled_again(cache, damage, ending):
    compilations()
    (path,) = cache.rglob(f"*.{ending}")
    content = path.read_bytes()
    path.write_bytes({"truncated": content[:-9], "empty": b"", "noise": bytes(99)}[damage])
    assert compilations() == 1


def test_code_for_other_types_in_the_same_file_is_not_used(cache):
    """Processes that compile at once may write the index of one and the code of the other."""
    compilations()
    compilations(LEFT.astype(np.float32))
    one, other = sorted(cache.rglob("*.nbc"))
    other.replace(one)
    assert compilations() == 1


def test_sources_and_processor_name_the_folder(cache, monkeypatch, tmp_path):
    source, folder_of = tmp_path / "kernel.py", compiling._cache_folder.__wrapped__
    source.write_text("one")
    folders = [folder_of(str(source))]
    source.write_text("two")
    folders.append(folder_of(str(source)))
    monkeypatch.setattr(compiling, "_processor", lambda: ("other", "processor", ""))
    folders.append(folder_of(str(source)))
    (tmp_path / "kernels").mkdir()  # a package with another helper
    monkeypatch.setattr(compiling, "__file__", str(tmp_path / "kernels" / "helper.py"))
    folders.append(folder_of(str(source)))
    assert len(set(folders)) == 4


@pytest.mark.parametrize("obstacle", ["a file", "open to others"])
def test_without_a_private_folder_kernels_run(cache, obstacle):
    if obstacle == "a file":
        cache.touch()
    else:
        compilations()
        next(cache.iterdir()).chmod(0o777)
    compiling._cache_folder.cache_clear()
    assert [compilations(), compilations()] == [1, 1]


@pytest.mark.slow
def test_processes_that_start_at_once_share_the_cache(tmp_path):
    program = (
        "import numpy as np; from primo_scale.kernels.packed import _decode_words, decode;"
        "packed = np.full((2, 1), 0b11_10_00_01, np.uint8); table = np.arange(8, dtype=np.int8);"
        "codes = decode(packed, table.reshape(2, 4), 4).tolist();"
        "print(codes, sum(_decode_words.stats.cache_hits.values()))"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command, piped = [sys.executable, "-c", program], subprocess.PIPE
    at_once = [subprocess.Popen(command, env=environment, stdout=piped) for _ in range(6)]
    printed = [process.communicate()[0].decode() for process in at_once]
    assert {line[:28] for line in printed} == {"[[1, 0, 2, 3], [5, 4, 6, 7]]"}
    after = subprocess.run(command, env=environment, stdout=piped, check=True).stdout.decode()
    assert after == "[[1, 0, 2, 3], [5, 4, 6, 7]] 1\n"


@emitted("int64")
def read_byte(builder, descriptor, target):
    read = function(builder, "read", [I32, I8.as_pointer(), I64], I64)
    arguments = [builder.trunc(descriptor, I32), pointer(builder, target, I8), word(1)]
    return builder.call(read, arguments)


def read(descriptor, target):
    return read_byte(descriptor, target.ctypes.data)


def test_other_threads_run_while_a_kernel_runs(cache):
    """The kernel waits for a process, which waits for this thread and writes L if that is late."""
    kernel, target = compiled(read), np.zeros(1, dtype=np.uint8)
    with open("/dev/zero", "rb") as zeros:
        assert kernel(zeros.fileno(), target) == 1  # compiles
    command = ["bash", "-c", "read -t 20 line; echo ${line:-L}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        thread = threading.Thread(target=kernel, args=(process.stdout.fileno(), target))
        thread.start()
        process.stdin.write(b"S\n")
        process.stdin.flush()
        thread.join()
    assert bytes(target) == b"S"
