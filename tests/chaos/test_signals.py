"""A hundred times SIGTERM, over the whole life of a release: exit code 5 or a completed release.

Each trial then runs the same command again, which must complete: one charge, the digest of an
undisturbed run, one release that verifies, and nothing left over beside it. The same holds after
kill -9. What the trials gave is in docs/testing.md.
"""

from __future__ import annotations

import os
import random
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from commands import (
    PATIENCE_SECONDS,
    command_of,
    digest_in,
    error_in,
    kill_group,
    started,
    wait_until,
)
from conftest import PANEL, run
from small_cohort import command

from primo_scale.cli.release import main as release_command
from primo_scale.ledger.ledger import Ledger
from primo_scale.publication.verify import verify_release

pytestmark = [pytest.mark.chaos, pytest.mark.slow, pytest.mark.trials]


@dataclass(frozen=True)
class Prepared:
    """A tiny cohort and what an undisturbed run makes of it.

    Attributes
    ----------
    prefix
        Fileset and tables.
    work
        Work directory with finished statistics, before any charge.
    digest
        Of the statistics.
    seconds
        What a whole release took here, from the installed handlers to the end.
    """

    prefix: Path
    work: Path
    digest: str
    seconds: float


@dataclass(frozen=True)
class Location:
    """Directory of one trial."""

    directory: Path
    workers: bool = False  # processes in place of threads

    @property
    def ledger(self) -> Path:
        return self.directory / "ledger.sqlite"

    @property
    def release(self) -> Path:
        return self.directory / "release"

    @property
    def work(self) -> Path:
        return self.directory / "release.work"

    def staging(self) -> list[Path]:
        return list(self.directory.glob(".release.*"))

    def options(self, prefix: Path) -> list[object]:
        return [
            "--bfile", prefix, *tables(prefix), *MODEL,
            *(["--workers", 1] if self.workers else []),
            "--ledger", self.ledger, "--out", self.release, "--cohort", "c",
        ]  # fmt: skip

    def command(self, prefix: Path) -> list[str]:
        return command_of("gwas_release", self.options(prefix))

    def noise(self) -> list[Path]:
        return list((self.work / "private_statistics").glob("*.zarr"))


def tables(prefix: Path) -> list[str]:
    names = ("pheno", "covar", "pheno-bounds", "covar-bounds")
    return [word for name in names for word in (f"--{name}", f"{prefix}.{name}.tsv")]


MODEL = ["--ref-freq", f"{PANEL}.afreq", "--ld-blocks", "window:30", "--epsilon", 2,
         "--delta", 1e-7, "--accept-noise"]  # fmt: skip


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    directory = tmp_path_factory.mktemp("signals")
    prefix, work = directory / "c", directory / "work"
    work.mkdir(mode=0o700)
    done = None
    for words in (
        ["simulate", "--bfile", PANEL, "--out", prefix, "--samples", 400, "--seed", 1,
         "--variants", 90, "--phenotypes", 2],
        ["ingest", "--bfile", prefix, "--out", work / "genotypes.zarr"],
        ["accumulate", "--genotypes", work / "genotypes.zarr", *tables(prefix), *MODEL,
         "--work-dir", work],
    ):  # fmt: skip
        done = run(command_of(words[0], words[1:]), dict(os.environ))
        assert done.returncode == 0, done.stderr
    assert done is not None
    whole = Location(directory / "whole")
    whole.directory.mkdir()
    start = time.monotonic()
    assert run(whole.command(prefix), dict(os.environ)).returncode == 0
    seconds = time.monotonic() - start
    completed(whole, prefix, digest_in(done.stdout))
    return Prepared(prefix, work, digest_in(done.stdout), seconds)


def is_noting_signals(process: subprocess.Popen[str]) -> bool:
    """Whether the process has a handler of SIGTERM: before it has one, nothing has begun."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    (caught,) = [line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")]
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


def completed(place: Location, prefix: Path, digest: str) -> None:
    """Run the command again, in this process; compare everything with an undisturbed run."""
    again = command(release_command, *place.options(prefix))
    assert again.exit_code == 0, again.stderr
    assert digest_in(again.stdout) == digest
    with Ledger(place.ledger, create=False) as ledger:
        assert ledger.verify() == []
        (balance,) = ledger.balances()
    (published,) = balance.charges
    assert len(published.release_digests) == 1
    assert all(finding.ok for finding in verify_release(place.release))
    assert place.staging() == []


AIMS: dict[str, Callable[[Location], object]] = {
    "anywhere": lambda place: True,
    "imports": lambda place: True,
    "compilation": lambda place: any((place.directory / "numba").rglob("*.nb?")),
    "charge": lambda place: place.ledger.exists(),
    "draw": lambda place: (place.work / "private_statistics").exists(),
    "publication": lambda place: place.staging() or place.release.exists(),
}
# Number of trials, and the longest delay of the signal in seconds; None: that of a whole release.
Trials = dict[str, tuple[int, float | None]]
TRIALS: Trials = {
    "anywhere": (40, None),
    "imports": (14, 1.5),
    "compilation": (6, 4.0),
    "charge": (14, 0.3),
    "draw": (12, 0.3),
    "publication": (14, 0.3),
}
FROM_THE_START = ("anywhere", "compilation")


KILLS: Trials = {"anywhere": (10, None), "draw": (10, 0.3), "publication": (10, 0.3)}


def numbered(trials: Trials) -> list[tuple[str, int]]:
    return [(aim, number) for aim, (count, _) in trials.items() for number in range(count)]


def strike(
    place: Location, prepared: Prepared, aim: str, number: int, trials: Trials, blow: signal.Signals
) -> tuple[int, str]:
    """Run the command and send it a signal at a random time; its exit code and standard output."""
    environment = dict(os.environ)
    if aim == "compilation":
        environment["NUMBA_CACHE_DIR"] = str(place.directory / "numba")
    if aim not in FROM_THE_START:
        shutil.copytree(prepared.work, place.work)
    longest = trials[aim][1]
    delay = random.Random(f"{aim} {number}").uniform(0, longest or prepared.seconds)
    command = place.command(prepared.prefix)
    with started(command, environment, place.directory / "stderr") as process:
        wait_until(lambda: is_noting_signals(process), of=process)
        wait_until(lambda: AIMS[aim](place), of=process)
        time.sleep(delay)
        if blow == signal.SIGKILL:
            kill_group(process)
        else:
            process.send_signal(blow)
        stdout, _ = process.communicate(timeout=PATIENCE_SECONDS)
    return process.returncode, stdout


@pytest.mark.parametrize(("aim", "number"), numbered(TRIALS))
def test_sigterm_ends_with_5_or_a_completed_release(
    aim: str, number: int, prepared: Prepared, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    place = Location(tmp_path, workers=number % 8 == 0)
    code, stdout = strike(place, prepared, aim, number, TRIALS, signal.SIGTERM)
    stderr = (tmp_path / "stderr").read_text()
    request.node.user_properties.append(("exit_code", code))
    assert code in (0, 5), stderr
    if code == 5:
        again = shlex.join(place.command(prepared.prefix))
        assert error_in(stderr) == f"error: interrupted. To continue: {again}"
    else:
        assert stdout.endswith(f"release: {place.release}\n")
    drawn = place.noise()
    completed(place, prepared.prefix, prepared.digest)
    assert drawn in ([], place.noise()), "the noise that was drawn is the noise of the release"


@pytest.mark.parametrize(("aim", "number"), numbered(KILLS))
def test_a_kill_is_followed_by_one_release(
    aim: str, number: int, prepared: Prepared, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    place = Location(tmp_path, workers=number % 4 == 0)
    code, _ = strike(place, prepared, aim, number, KILLS, signal.SIGKILL)
    completed(place, prepared.prefix, prepared.digest)
    request.node.user_properties.append(("exit_code", code))
