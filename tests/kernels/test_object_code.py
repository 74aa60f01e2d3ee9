"""Kernels from the disk: same results, nothing stale or damaged, and no need of Numba."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numba.core.errors import TypingError
from support.processes import run

from primo_scale.cluster.dask_settings import WORKER_ENVIRONMENT
from primo_scale.kernels import numba_compiler, object_code
from primo_scale.kernels.compiling import compiled, host_features, inlined
from primo_scale.kernels.emitting import I8, I32, I64, emitted, function, pointer, word


@inlined
def twice(value):
    return value + value


def dot(left, scale, right):
    """Return 2 * scale * (left @ right), rounded down."""
    total = 0.0
    for i in range(left.shape[0]):
        total += twice(left[i] * scale) * right[i]
    return np.int64(np.floor(total))


class Pair(NamedTuple):
    numbers: np.ndarray
    more: np.ndarray


def add_rows(pair, positive, result):
    for i in range(result.shape[0]):
        for j in range(result.shape[1]):
            value = pair.numbers[i, j] + pair.more[j]
            result[i, j] = value if positive else 2 * value


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Provide an empty cache, and the names of the functions that are compiled."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    names: list[str] = []
    compile_for = numba_compiler.compile_for

    def counted(function, arguments, **options):
        names.append(function.__name__)
        return compile_for(function, arguments, **options)

    monkeypatch.setattr(numba_compiler, "compile_for", counted)
    return names


LEFT, RIGHT = np.array([1.5, -2.0, 4.0]), np.array([2.0, 1.0, 0.25])


def dot_of_fresh_kernel() -> int:
    return compiled(dot)(LEFT, 3, RIGHT)


@pytest.mark.parametrize("layout", ["C", "F", "strided", "reversed", "empty"])
def test_arrays_of_any_layout_are_passed(layout: str, compilations) -> None:
    numbers = np.arange(12, dtype=np.int8).reshape(3, 4)
    numbers = {
        "C": numbers,
        "F": np.asfortranarray(numbers),
        "strided": np.repeat(numbers, 2, axis=1)[:, ::2],
        "reversed": numbers[::-1],
        "empty": numbers[:0],
    }[layout]
    more = np.arange(4, dtype=np.int8)
    result = np.zeros(numbers.shape)
    add = compiled(add_rows)
    assert add(Pair(numbers, more), np.bool_(False), result) is None
    np.testing.assert_array_equal(result, 2 * (numbers.astype(float) + more))
    add(Pair(numbers, more), True, result)
    np.testing.assert_array_equal(result, numbers.astype(float) + more)


def test_the_cache_serves_what_was_compiled(compilations) -> None:
    assert [dot_of_fresh_kernel() for _ in range(3)] == [12, 12, 12]
    assert compilations == ["dot"]


def test_one_version_is_compiled_for_all_threads(compilations) -> None:
    kernel = compiled(dot)
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda _: kernel(LEFT, 3, RIGHT), range(16))) == [12] * 16
    assert compilations == ["dot"]


def test_unaligned_arrays_are_passed(compilations) -> None:
    memory = np.zeros(3 * 8 + 1, dtype=np.uint8)
    unaligned = memory[1:].view(np.float64)
    unaligned[:] = LEFT
    assert not unaligned.flags.aligned
    kernel = compiled(dot)
    assert kernel(LEFT, 3, RIGHT) == kernel(unaligned, 3, RIGHT) == 12
    assert compilations == ["dot", "dot"]


def test_integers_keep_all_bits_and_their_sign(compilations) -> None:
    @compiled
    def difference(a, b):
        return np.int64(a - b)

    assert difference(2**62, -(2**62) + 1) == 2**63 - 1
    assert difference(np.uint64(2**64 - 1), np.uint64(2**64 - 6)) == 5
    with pytest.raises(OverflowError):
        difference(2**63, 0)


@pytest.mark.parametrize("damage", ["truncated", "changed", "empty", "of another source"])
def test_a_damaged_or_outdated_file_is_compiled_again(
    damage: str, compilations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dot_of_fresh_kernel()
    (path,) = (tmp_path / "cache").iterdir()
    content = path.read_bytes()
    if damage == "truncated":
        path.write_bytes(content[:-1])
    elif damage == "changed":
        path.write_bytes(content[:-100] + bytes([content[-100] ^ 1]) + content[-99:])
    elif damage == "empty":
        path.write_bytes(b"")
    else:
        monkeypatch.setattr(object_code, "_sources", lambda _: b"another")
    assert dot_of_fresh_kernel() == dot_of_fresh_kernel() == 12
    assert compilations == ["dot", "dot"]
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_another_processor_has_a_file_of_its_own(
    compilations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dot_of_fresh_kernel()
    monkeypatch.setattr(object_code, "_processor", lambda: "another")
    dot_of_fresh_kernel()
    assert compilations == ["dot", "dot"]
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_without_a_writable_folder_kernels_run(
    compilations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file" / "below"))
    assert dot_of_fresh_kernel() == dot_of_fresh_kernel() == 12
    assert compilations == ["dot", "dot"]


def test_the_users_cache_serves_where_the_package_cannot_be_written(
    compilations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "users"))
    folders = object_code._folders(tmp_path / "file" / "below" / "module.py")
    monkeypatch.setattr(object_code, "_folders", lambda _: folders)
    assert dot_of_fresh_kernel() == dot_of_fresh_kernel() == 12
    assert compilations == ["dot"]
    assert len(list((tmp_path / "users" / "primo_scale").iterdir())) == 1


def test_a_function_that_allocates_or_returns_an_array_is_refused(compilations) -> None:
    def allocates(values):
        return np.zeros(values.shape[0]).sum()

    def returns_the_array(values):
        return values

    for refused in (allocates, returns_the_array):
        with pytest.raises((TypingError, TypeError)):
            compiled(refused)(LEFT)


LARGE = np.arange(200_000, dtype=np.int64)


def test_code_with_an_address_of_this_process_is_not_kept(compilations) -> None:
    def number(i):
        return LARGE[i]

    assert compiled(number)(7) == compiled(number)(7) == 7
    assert compilations == ["number", "number"]


def test_without_compilation_a_bed_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.bed").write_bytes(b"\x6c\x1b\x01" + bytes(range(8)))
    (tmp_path / "a.bim").write_text("".join(f"1 v{i} 0 {i + 1} A G\n" for i in range(4)))
    (tmp_path / "a.fam").write_text("".join(f"F I{i} 0 0 0 -9\n" for i in range(7)))
    program = (
        "import sys; from pathlib import Path; import numpy as np;"
        "from primo_scale.genotypes.source import SourceFiles, open_source;"
        "bed = open_source(SourceFiles((Path(sys.argv[1]),)));"
        "print(bed.read(np.arange(4), np.arange(7)).ravel().tolist())"
    )
    command = [sys.executable, "-c", program, tmp_path / "a"]
    done = run(command, {**os.environ, "NUMBA_DISABLE_JIT": "1"})
    assert done.stdout == "[0, 1, 2, 3, 4, 5, 6, 7]\n", done.stderr


def test_settings_of_numba_in_a_file_select_no_instructions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(".numba_config.yaml").write_text("enable_avx: 0")
    assert host_features() == frozenset()


def test_an_error_in_a_kernel_is_raised(compilations) -> None:
    @compiled
    def quotient(a, b):
        return a // b

    assert quotient(7, 2) == 3
    with pytest.raises(ArithmeticError, match="quotient"):
        quotient(7, 0)


@emitted("int64")
def read_byte(builder, descriptor, target):
    read = function(builder, "read", [I32, I8.as_pointer(), I64], I64)
    arguments = [builder.trunc(descriptor, I32), pointer(builder, target, I8), word(1)]
    return builder.call(read, arguments)


def test_other_threads_run_while_a_kernel_runs(compilations) -> None:
    """The kernel waits for a process, which waits for this thread and writes L if that is late."""

    @compiled
    def read(descriptor, target):
        return read_byte(descriptor, target.ctypes.data)

    target = np.zeros(1, dtype=np.uint8)
    with open("/dev/zero", "rb") as zeros:
        assert read(zeros.fileno(), target) == 1  # compiles
    command = ["bash", "-c", "read -t 20 line; echo ${line:-L}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        thread = threading.Thread(target=read, args=(process.stdout.fileno(), target))
        thread.start()
        process.stdin.write(b"S\n")
        process.stdin.flush()
        thread.join()
    assert bytes(target) == b"S"


@pytest.mark.slow
def test_a_worker_process_does_not_import_numba(tmp_path: Path) -> None:
    """Workers have settings for threads that the command does not have."""
    program = (
        "import sys; import numpy as np; from primo_scale.kernels.packed import decode;"
        "packed = np.full((2, 1), 0b11_10_00_01, np.uint8); table = np.arange(8, dtype=np.int8);"
        "print(decode(packed, table.reshape(2, 4), 4).tolist(), 'numba' in sys.modules)"
    )
    command = [sys.executable, "-c", program]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    printed = [run(command, environment | more).stdout for more in ({}, WORKER_ENVIRONMENT)]
    expected = "[[1, 0, 2, 3], [5, 4, 6, 7]]"
    assert printed == [f"{expected} True\n", f"{expected} False\n"]
