"""Atomic writing of files and directories, locks, permissions and digests."""

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from support.durable import disk_seen

from primo_scale.errors import InputError, ResourceError
from primo_scale.storage import files
from primo_scale.storage.files import (
    directory_published_at_end,
    disk_errors_explained,
    exclusive_lock,
    lock_is_held,
    make_private_directory,
    write_atomically,
)


def test_a_failed_write_leaves_the_old_content_and_no_temporary(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    write_atomically(path, b"old")

    def full_disk(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(ResourceError, match="disk is full"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize("size", [3, 1 << 20])  # the first stays in Python's buffer
def test_a_file_has_its_name_after_its_content_is_durable(tmp_path, monkeypatch, size):
    renamed = []
    with disk_seen() as disk:
        replace = os.replace

        def seen(source, target):
            renamed.append(disk.has_content(Path(source)))
            replace(source, target)

        monkeypatch.setattr(os, "replace", seen)
        write_atomically(tmp_path / "a", b"x" * size)
        assert renamed == [True]
        assert disk.keeps(tmp_path / "a")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


def test_a_directory_has_its_name_after_all_below_is_durable(tmp_path, monkeypatch):
    renamed = []
    with disk_seen() as disk:
        rename = os.rename

        def seen(source, target):
            below = [path for path in Path(source).rglob("*") if path.is_file()]
            renamed.append([disk.keeps(path) for path in below])
            assert disk.names_in(Path(source)) == ["inside", "one"]
            rename(source, target)

        monkeypatch.setattr(os, "rename", seen)
        with directory_published_at_end(tmp_path / "release") as staging:
            (staging / "one").write_bytes(b"1")
            (staging / "inside").mkdir()
            (staging / "inside" / "two").write_bytes(b"2")
        assert renamed == [[True, True]]
        assert "release" in disk.names_in(tmp_path)


def test_a_directory_appears_complete_or_not_at_all(tmp_path):
    target = tmp_path / "release"
    with pytest.raises(RuntimeError), directory_published_at_end(target) as staging:
        (staging / "half").write_text("x")
        raise RuntimeError("crash")
    assert list(tmp_path.iterdir()) == []
    with directory_published_at_end(target) as staging:
        (staging / "whole").write_text("x")
        assert not target.exists()
    assert (target / "whole").read_text() == "x"
    with pytest.raises(InputError, match="exists already"), directory_published_at_end(target):
        pass
    other = tmp_path / "other"
    with (
        pytest.raises(InputError, match="other: exists already"),
        directory_published_at_end(other),
    ):
        target.rename(other)


KILLED_WHILE_STAGING = """
import os, sys
from pathlib import Path
from primo_scale.storage.files import directory_published_at_end
with directory_published_at_end(Path(sys.argv[1])) as staging:
    (staging / "half").write_text("x")
    os.kill(os.getpid(), 9)
"""


def test_only_temporary_directories_of_killed_processes_are_removed(tmp_path):
    target = tmp_path / "release"
    subprocess.run([sys.executable, "-c", KILLED_WHILE_STAGING, str(target)], check=False)
    abandoned, lock = sorted(tmp_path.iterdir())
    names = (".release.toolong99", ".release.d", ".release.20261122", "release.work")
    others = [tmp_path / name for name in names]  # without a lock file beside them
    for path in others:
        path.mkdir()
    with directory_published_at_end(tmp_path / "other"):
        pass
    assert abandoned.is_dir()
    with directory_published_at_end(target) as alive:
        assert not abandoned.exists() and not lock.exists()
        with pytest.raises(RuntimeError), directory_published_at_end(target):
            assert alive.is_dir(), "another process is filling it"
            raise RuntimeError("crash")
    assert sorted(tmp_path.iterdir()) == sorted([*others, tmp_path / "other", target])


def test_a_lock_on_a_removed_file_does_not_count(tmp_path, monkeypatch):
    """The owner removes the file after it was opened and before it is locked."""
    lock = tmp_path / "lock"
    take, removed = files._take_lock, []

    def take_late(descriptor):
        if not removed:
            removed.append(lock.unlink())
        return take(descriptor)

    monkeypatch.setattr(files, "_take_lock", take_late)
    with exclusive_lock(lock):
        assert lock_is_held(lock)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (errno.ENOSPC, ResourceError), (errno.EDQUOT, ResourceError), (errno.EROFS, InputError),
        (errno.EFBIG, ResourceError), (errno.EEXIST, InputError), (errno.ENOENT, FileNotFoundError),
    ],
)  # fmt: skip
def test_disk_errors_become_one_line_errors_and_others_pass(tmp_path, code, error):
    with pytest.raises(error), disk_errors_explained(tmp_path):
        raise OSError(code, "x")


def test_a_lock_is_refused_until_its_owner_is_killed(tmp_path):
    lock = tmp_path / "lock"
    code = (
        "import pathlib, sys, time\n"
        "from primo_scale.storage.files import exclusive_lock\n"
        f"with exclusive_lock(pathlib.Path({str(lock)!r})):\n"
        "    print('held', flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as owner:
        owner.stdout.readline()
        with pytest.raises(InputError, match="another run"), exclusive_lock(lock):
            pass
        owner.kill()
        owner.wait()
        with exclusive_lock(lock):
            pass


@pytest.mark.parametrize("mode", [0o755, 0o710, 0o701])
def test_a_directory_that_others_may_enter_takes_no_private_data(tmp_path, mode):
    path = make_private_directory(tmp_path / "a" / "b")
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    path.chmod(mode)
    with pytest.raises(InputError, match="other users have access"):
        make_private_directory(path)
    assert stat.S_IMODE(path.stat().st_mode) == mode


CONVERSIONS = """
import dataclasses, sys, threading
from primo_scale.storage.files import converted

sys.setswitchinterval(1e-6)
for number in range(300):
    inner = dataclasses.make_dataclass(f"Inner{number}", [("sizes", tuple[int, ...])])
    members = [("inner", inner), ("names", dict[str, str]), ("limit", int | None)]
    outer = dataclasses.make_dataclass(f"Outer{number}", members)
    document = {"inner": {"sizes": [1, 2]}, "names": {"a": "b"}, "limit": None}
    begin, found = threading.Barrier(2), []

    def convert():
        begin.wait()
        found.append(converted(document, outer))

    threads = [threading.Thread(target=convert) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == 2 * [outer(inner((1, 2)), {"a": "b"}, None)]
"""


def test_two_threads_can_convert_values_of_a_new_type() -> None:
    """By `msgspec.convert` alone, 0.22, the process ends with a segmentation fault."""
    done = subprocess.run([sys.executable, "-c", CONVERSIONS], capture_output=True, text=True)
    assert done.returncode == 0, (done.returncode, done.stderr)
