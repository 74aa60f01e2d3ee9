"""Signals stop a command at its next check, and their handlers never raise."""

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import Future

import pytest
from support.processes import ROOT, run

from primo_scale import interruption
from primo_scale.errors import InterruptedRun
from primo_scale.interruption import check, check_before_charge, deferred, result_of, signals_noted


def strike(number: int = signal.SIGTERM) -> None:
    os.kill(os.getpid(), number)


def silent() -> None:
    """Do nothing, as the last words of tests that do not end a process."""


@pytest.mark.parametrize("number", interruption.SIGNALS)
def test_a_signal_raises_only_at_the_next_check(number) -> None:
    before = signal.getsignal(number)
    with signals_noted(silent):
        check()
        strike(number)
        exec("total = sum(range(10))")
        with pytest.raises(InterruptedRun, match="interrupted"):
            check()
    assert signal.getsignal(number) is before
    check()  # it is forgotten with the handlers


def test_the_end_of_a_login_is_noted_unless_nohup_ignores_it() -> None:
    code = "import signal as s; s.signal(s.SIGHUP, s.{}); from primo_scale import interruption as i"
    for handling, noted in (("SIG_DFL", True), ("SIG_IGN", False)):
        asked = f"{code.format(handling)}; print(s.SIGHUP in i.SIGNALS)"
        assert run([sys.executable, "-c", asked]).stdout.strip() == str(noted)


TERMINAL_GOES = """
import signal, sys, time
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whatever these tests run under
from primo_scale.interruption import check, note_signals_until_exit

note_signals_until_exit()
print("ready", flush=True)
try:
    while True:
        check()
        time.sleep(0.01)
finally:
    print("a bar", file=sys.stderr, flush=True)
    open(sys.argv[1], "w").write("printed")
"""


def test_a_command_whose_terminal_goes_still_ends_in_order(tmp_path) -> None:
    """Without a reader, each write to the terminal would be an error, and the run a failed one."""
    ours, terminal = os.openpty()
    words = [sys.executable, "-c", TERMINAL_GOES, tmp_path / "end"]
    process = subprocess.Popen(
        words, cwd=ROOT, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True
    )
    os.close(terminal)
    assert os.read(ours, 5) == b"ready"
    os.close(ours)
    process.send_signal(signal.SIGHUP)  # the kernel sends it to the session's leader
    process.wait(60)
    assert (tmp_path / "end").read_text() == "printed"


def test_a_signal_waits_while_interruptions_are_deferred() -> None:
    passed = []
    with signals_noted(silent):
        with pytest.raises(InterruptedRun), deferred():
            strike()
            check()
            passed.append("to the end")
            with pytest.raises(InterruptedRun):
                check_before_charge()
        with pytest.raises(InterruptedRun), deferred():
            passed.append("not begun")
    assert passed == ["to the end"]


def test_an_error_in_a_deferred_block_is_not_replaced_by_the_interruption() -> None:
    with signals_noted(silent), pytest.raises(ZeroDivisionError), deferred():
        strike()
        print(1 / 0)


def test_waiting_for_a_future_ends_with_a_signal() -> None:
    with signals_noted(silent):
        threading.Timer(0.1, strike).start()
        with pytest.raises(InterruptedRun):
            result_of(Future())
    done: Future[int] = Future()
    done.set_result(3)
    assert result_of(done) == 3


def test_handlers_are_installed_once_and_only_in_the_main_thread() -> None:
    before = [signal.getsignal(number) for number in interruption.SIGNALS]
    seen = []

    def in_thread() -> None:
        with signals_noted(silent):
            seen.append([signal.getsignal(number) for number in interruption.SIGNALS])

    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    assert seen == [before]
    with signals_noted(silent):
        with signals_noted(silent):
            strike()
        with pytest.raises(InterruptedRun):  # heard in the inner block, and not lost with it
            check()
    code = "import signal, pipelines, pipelines.gwas_release; print(signal.getsignal(15))"
    assert run([sys.executable, "-c", code]).stdout.strip() == str(signal.Handlers.SIG_DFL)


BUSY = """
import ctypes, os, signal, sys
from primo_scale import interruption
import click
from primo_scale.cli.command_line import ContractCommand

interruption.GRACE_SECONDS = 1.5
interruption.note_signals_until_exit()

@click.command(cls=ContractCommand)
def main():
    {block}

main()
"""


@pytest.mark.parametrize(
    ("block", "code", "said"),
    [
        # No instruction of Python runs in the main thread, as in a large decomposition.
        ("os.kill(os.getpid(), signal.SIGTERM); ctypes.CDLL(None).sleep(600)", 5, "interrupted"),
        pytest.param(
            "import numpy; "
            "x = numpy.random.default_rng(0).normal(size=(4000, 4000)); x += x.T; "
            "os.kill(os.getpid(), signal.SIGTERM); numpy.linalg.eigh(x); "
            "interruption.GRACE_SECONDS = 600",
            5, "interrupted", marks=pytest.mark.slow,
        ),
        ("with interruption.deferred():\n        "
         "os.kill(os.getpid(), signal.SIGTERM); __import__('time').sleep(3); print('paid')",
         5, "paid"),
        ("import atexit; atexit.register(os.kill, os.getpid(), signal.SIGTERM)", 0, ""),
    ],
)  # fmt: skip
def test_a_busy_process_ends_unless_it_pays(block, code, said) -> None:
    done = run([sys.executable, "-c", BUSY.format(block=block)])
    assert done.returncode == code, done.stderr
    assert said in done.stdout + done.stderr
    assert ("To continue" in done.stderr) == (code == 5)


SWALLOWED = """
import ctypes, os, signal, sys
from primo_scale.cli.command_line import ContractCommand
from primo_scale.run.run_log import stage
import click

@click.command(cls=ContractCommand)
def main():
    strike = lambda: os.kill(os.getpid(), signal.SIGTERM)
    {block}
    with stage("next"):
        print("went on")
main()
"""


@pytest.mark.parametrize(
    "block",
    [
        # Where an exception of a handler ended with exit code 130, and where it was lost.
        "exec('strike(); sum(range(10))', {'strike': strike})",
        "ctypes.CFUNCTYPE(None)(strike)()",
    ],
)
def test_a_signal_always_ends_with_exit_code_5(block, tmp_path) -> None:
    (tmp_path / "toy.py").write_text(SWALLOWED.format(block=block))
    done = run([sys.executable, "-m", "toy"], folder=tmp_path)
    assert (done.returncode, done.stdout) == (5, ""), done.stderr
    assert done.stderr.startswith("error: interrupted. To continue: ")
