"""Helpers that start, watch and disturb runs on a job queue of one node."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from support.command_io import digest_in, table_options
from support.processes import ROOT, command_of, run

# Limit that detects hangs; the tests make no assertion about durations.
LIMIT_SECONDS = 600
PRELOAD = Path(__file__).with_name("gated_tasks.py")
PROFILE = """\
kind = "{kind}"
jobs = 1
poll = 1
[options]
cores = 2
memory = "1GiB"
walltime = "00:10:00"
interface = "lo"
scheduler_options = {{ host = "127.0.0.1" }}
job_script_prologue = [
  "export PRIMO_TEST_GATE={gate}",
  "export DASK_DISTRIBUTED__WORKER__PRELOAD=[\\"'{preload}'\\"]",
]
{options}
"""


class Queue:
    def call(self, *words: object) -> str:
        asked = list(map(str, words))
        return subprocess.run(asked, check=True, capture_output=True, text=True).stdout


class Slurm(Queue):
    def jobs(self, state: str = "RUNNING,PENDING", name: str = "primo-scale") -> list[str]:
        listing = self.call(
            "squeue", "--noheader", "--format=%i", f"--states={state}", f"--name={name}"
        )
        return listing.split()

    def state(self, job: str) -> str:
        """Return the state of a job, which is available for a while after its end."""
        facts = self.call("scontrol", "--oneliner", "show", "job", job)
        return facts.partition("JobState=")[2].split()[0]

    def start_again(self, job: str, said: Callable[[], str]) -> None:
        """Start a requeued job after a second, which SLURM would delay by two minutes."""
        wait_for(lambda: self.state(job) == "PENDING", "requeue", said)
        self.call("scontrol", "update", f"JobId={job}", "StartTime=now+2")
        wait_for(lambda: self.state(job) == "RUNNING", "second start", said)

    def set_partition(self, state: str) -> None:
        self.call("scontrol", "update", "PartitionName=debug", f"State={state}")


class GridEngine(Queue):
    def jobs(self, name: str = "primo-scale") -> list[str]:
        listing = ElementTree.fromstring(self.call("qstat", "-xml"))
        return [
            str(job.findtext("JB_job_number"))
            for job in listing.iter("job_list")
            if job.findtext("JB_name") == name
        ]


@dataclass(frozen=True)
class Cohort:
    prefix: Path
    frequencies: Path
    digest: str = ""

    def tables(self) -> list[str]:
        model = ["--ref-freq", str(self.frequencies), "--ld-blocks", "window:30"]
        return [*table_options(self.prefix), *model, "--non-private"]  # noise would enter the sums

    def accumulate_options(self, work: Path) -> list[str]:
        return ["--genotypes", f"{self.prefix}.zarr", *self.tables(), "--work-dir", str(work)]

    def release_options(self, directory: Path) -> list[object]:
        places = ["--out", directory / "release", "--ledger", directory / "ledger.sqlite"]
        return ["--bfile", self.prefix, *self.tables(), *places]

    def check_release(self, directory: Path) -> None:
        """Check the release of `release_options`, and its statistics."""
        log = (directory / "release.work" / "run.log").read_text()
        assert f"statistics sha256: {self.digest}" in log
        assert run(command_of("verify", [directory / "release"])).returncode == 0


@dataclass(frozen=True)
class Command:
    """Command for a job queue whose tasks wait at a gate after the first few (`gated_tasks`)."""

    words: tuple[str, ...]
    gate: Path
    log: Path  # output of the command

    def said(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    def lives(self) -> set[str]:
        """Return JOB.START of every job with a task that reached the gate."""
        return {path.name.removeprefix("waits-") for path in self.gate.glob("waits-*")}

    def open_gate(self) -> None:
        (self.gate / "open").touch()

    def refusal(self) -> str:
        """Run the command, which must end with exit code 3, and return the last line of errors."""
        ended = run(self.words)
        assert ended.returncode == 3, ended.stderr
        return ended.stderr.splitlines()[-1]


def gated_command(
    directory: Path, command: str, arguments: Sequence[object], **profile_parts: str
) -> Command:
    """Return a command with its own profile: `kind`, and lines of the `options`."""
    gate, profile = directory / "gate", directory / "profile.toml"
    gate.mkdir()
    parts = {"kind": "slurm", "options": "", **profile_parts}
    profile.write_text(PROFILE.format(gate=gate, preload=PRELOAD, **parts))
    words = [sys.executable, "-m", f"pipelines.{command}", "--cluster", profile, *arguments]
    return Command(tuple(map(str, words)), gate, directory / "said")


class Run:
    def __init__(self, command: Command) -> None:
        self.command = command
        with command.log.open("w") as output:
            self.process = subprocess.Popen(
                command.words, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT
            )

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def wait_for(self, condition: Callable[[], object], what: str) -> None:
        def true_or_ended() -> object:
            assert self.process.poll() is None, f"ended before {what}: {self.command.said()}"
            return condition()

        wait_for(true_or_ended, what, self.command.said)

    def wait_for_new_life(self, before: set[str], what: str) -> None:
        """Wait until a task reaches the gate in a new job."""
        self.wait_for(lambda: self.command.lives() - before, what)

    def finish(self) -> str:
        self.command.open_gate()
        assert self.process.wait(LIMIT_SECONDS) == 0, self.command.said()
        return digest_in(self.command.said())


def wait_for(
    condition: Callable[[], object], what: str, said: Callable[[], str] = lambda: ""
) -> None:
    end = time.monotonic() + LIMIT_SECONDS
    while not condition():
        assert time.monotonic() < end, f"no {what} in {LIMIT_SECONDS} s: {said()}"
        time.sleep(0.1)
