"""Faults during payment and drawing: the same command continues with the same charge.

The statistics of the retry are compared with noise that the test draws from the key left behind.
"""

import errno
import os
import shutil
import signal
import sys

import pytest
from support.crash import exit_code
from support.stores import flip_a_bit
from support.tiny_release import MECHANISM, charges_of, key_left, noise_store, open_budget, pay

from primo_scale.errors import InputError, PrimoError, anticipated
from primo_scale.gaussian import noise
from primo_scale.gaussian.noise import KeystreamNoise
from primo_scale.ledger.accounts import ChargeState
from primo_scale.ledger.ledger import Ledger
from primo_scale.privacy.private_statistics import privatise

FILE_EVENTS = ("open", "os.rename", "os.remove", "os.mkdir", "os.link")


def drawn_from(key, folder, raw):
    """Return the digest of the statistics that the test draws from a key."""
    again = privatise(raw, MECHANISM, KeystreamNoise(key), folder / "again", lambda *_: None)
    return again.matrices.sha256()


def in_a_child(folder, prepare, function, *arguments):
    """Run ``function`` in a child after ``prepare()``; return its exit code and its error line."""

    def child():
        prepare()
        try:
            function(*arguments)
        except (PrimoError, OSError) as error:
            (folder / "line").write_text(str(anticipated(error)))
            os._exit(1)

    (folder / "line").unlink(missing_ok=True)
    code = exit_code(child)
    return code, (folder / "line").read_text() if (folder / "line").exists() else ""


def io_error_at(nth, below):
    """Let the nth operation on files below a directory, and every one after it, fail with EIO."""

    def prepare():
        count = 0

        def fail(path):
            nonlocal count
            if str(path).startswith(str(below)):
                count += 1
                if count >= nth:
                    raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

        flush, write = os.fsync, os.write
        name_of = "/proc/self/fd/{}".format
        os.fsync = lambda fd: (fail(os.readlink(name_of(fd))), flush(fd))[1]
        os.write = lambda fd, data: (fail(os.readlink(name_of(fd))), write(fd, data))[1]

        def watch(event, values):
            if event in FILE_EVENTS and isinstance(values[0], (str, bytes, os.PathLike)):
                fail(os.fsdecode(values[0]))

        sys.addaudithook(watch)

    return prepare


def check_retry(folder, raw):
    """Check that a retry after a fault has one charge, and the noise of the stored key."""
    left, before = key_left(folder), charges_of(folder)
    (result, receipt), (again, receipt_again) = pay(folder, raw), pay(folder, raw)
    (paid,) = charges_of(folder)
    charge = receipt.charge.id
    assert (paid.id, paid.state) == (charge, ChargeState.DRAWN)
    assert [c.id for c in before] in ([], [charge])
    if left is not None:
        assert (left[0] == charge) == bool(before), "the retry uses the key of the charge"
        if before:
            assert result.sha256() == drawn_from(left[1], folder, raw)
    assert receipt_again.charge.id == charge
    assert result.sha256() == again.sha256()
    assert key_left(folder) is None, "a key that remains reveals its noise"


@pytest.mark.parametrize("every", [17, pytest.param(3, marks=pytest.mark.slow)])
def test_an_io_error_at_any_file_operation_costs_no_second_charge(tmp_path, raw, every):
    seen, trials = set(), 0
    for nth in range(1, 500, every):
        folder = tmp_path / str(nth)
        (folder / "work").mkdir(parents=True)
        Ledger(folder / "ledger.sqlite").__exit__(None, None, None)
        code, line = in_a_child(folder, io_error_at(nth, folder / "work"), pay, folder, raw)
        if code == 0:
            break
        assert code == 1, "an error, not a crash"
        assert "\n" not in line
        assert str(folder / "work") in line, "the file is named"
        spent = bool(charges_of(folder))
        assert ("Budget was spent, on charge" in line) == spent, line
        assert ("No budget was spent" in line) == (not spent), line
        seen.add(spent)
        trials += 1
        check_retry(folder, raw)
        shutil.rmtree(folder)
    assert code == 0
    assert seen == {False, True}
    assert trials > 9


@pytest.mark.parametrize("chunk", [1, 2, 5])
def test_a_kill_inside_the_sampler_costs_no_second_charge(tmp_path, raw, chunk):
    def kill_at_chunk():
        fill, filled = noise._fill_chunk, []

        def killing(key, scale, drawn):
            filled.append(key)
            fill(key, scale, drawn)
            if len(filled) == chunk:
                os.kill(os.getpid(), signal.SIGKILL)

        noise._fill_chunk = killing

    code, _ = in_a_child(tmp_path, kill_at_chunk, pay, tmp_path, raw)
    assert code == -signal.SIGKILL
    assert len(charges_of(tmp_path)) == 1
    check_retry(tmp_path, raw)


def test_statistics_that_are_damaged_or_lost_are_not_drawn_again(tmp_path, raw):
    """The key is removed, and what was drawn may have been seen."""
    open_budget(tmp_path, 5.0)
    charge = pay(tmp_path, raw)[1].charge.id
    store = noise_store(tmp_path).path_of(charge, "zarr")
    (chunk,) = store.glob("observed/c/0")
    flip_a_bit(chunk)
    with pytest.raises(InputError, match="damaged") as found:
        pay(tmp_path, raw)
    assert f"charge {charge}: while its key or its noise is intact in {tmp_path}" in str(
        found.value
    )
    assert "the release has to be paid again" in str(found.value)
    flip_a_bit(chunk)
    assert pay(tmp_path, raw)[1].charge.id == charge
    shutil.rmtree(store)
    with pytest.raises(InputError, match="use another --work-dir, which pays again"):
        pay(tmp_path, raw)
    assert len(charges_of(tmp_path)) == 1


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 33])
def test_a_damaged_key_is_refused_and_not_replaced(tmp_path, raw, content):
    """Another key for the same charge would draw a second noise."""

    def die():
        noise._fill_chunk = lambda *_: os._exit(9)

    assert in_a_child(tmp_path, die, pay, tmp_path, raw)[0] == 9
    charge, whole = key_left(tmp_path)
    file = noise_store(tmp_path).directory / f"{charge}.key"
    file.write_bytes(content)
    with pytest.raises(InputError, match="the key of the noise is damaged"):
        pay(tmp_path, raw)
    file.write_bytes(whole)
    assert pay(tmp_path, raw)[1].charge.id == charge


def test_a_missing_key_is_refused_and_not_replaced(tmp_path):
    with pytest.raises(InputError, match="the key of the noise is missing"):
        noise_store(tmp_path).open_key("0123456789abcdef")
