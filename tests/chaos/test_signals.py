"""SIGTERMs at random times of a release: exit code 5 or a completed release.

The same command then completes with one charge, the X'X of an undisturbed run, one release that
verifies, and no temporary files; so it does after kill -9. Times are drawn anew in every run.
"""

import os
import random
import shlex
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import zarr
from support.command_io import PANEL, error_in, simulated, table_options
from support.processes import PATIENCE_SECONDS, command_of, kill_group, run, started, wait_until
from support.small_cohort import command, succeeded

import primo_scale as ps
from primo_scale.cli.commands import release as release_command
from primo_scale.ledger.ledger import Ledger
from primo_scale.verify.release import release_findings

pytestmark = [pytest.mark.chaos, pytest.mark.slow, pytest.mark.trials]


@dataclass(frozen=True)
class Prepared:
    prefix: Path  # common prefix of the fileset and the tables
    work: Path  # work directory with the genotypes, before any charge
    sums: str  # digest of X'X; the sums of phenotypes depend on the noise
    seconds: float  # duration of a whole release, from the installation of handlers to the end


@dataclass(frozen=True)
class Trial:
    directory: Path
    workers: bool = False  # whether processes instead of threads run the tasks

    @property
    def ledger(self):
        return self.directory / "ledger.sqlite"

    @property
    def release(self):
        return self.directory / "release"

    @property
    def work(self):
        return self.directory / "release.work"

    def staging(self):
        return list(self.directory.glob(".release.*"))

    def options(self, prefix):
        return [
            "--bfile", prefix, *table_options(prefix), *MODEL,
            *(["--workers", 1] if self.workers else []),
            "--ledger", self.ledger, "--out", self.release, "--cohort", "c",
        ]  # fmt: skip

    def command(self, prefix):
        return command_of("gwas_release", self.options(prefix))

    def noise(self):
        return list((self.work / "private_statistics").glob("*.zarr"))


MODEL = ["--ref-freq", f"{PANEL}.afreq", "--ld-blocks", "window:30", "--epsilon", 2,
         "--delta", 1e-7, "--accept-noise"]  # fmt: skip


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    directory = tmp_path_factory.mktemp("signals")
    prefix = simulated(directory / "c", 400, 1, variants=90, phenotypes=2)
    work = directory / "work"
    work.mkdir(mode=0o700)
    store = work / "genotypes.zarr"
    ps.ingest(bfile=prefix, out=store)
    whole = Trial(directory / "whole")
    whole.directory.mkdir()
    start = time.monotonic()
    assert run(whole.command(prefix)).returncode == 0
    seconds = time.monotonic() - start
    prepared = Prepared(prefix, work, genotype_sums(whole), seconds)
    completed(whole, prepared)
    return prepared


def is_noting_signals(process):
    """Return whether the process has a handler of SIGTERM, before which it does nothing."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    (caught,) = [line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")]
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


def genotype_sums(trial):
    grams = zarr.open_group(trial.work / "statistics.zarr", mode="r")["gram"]
    blocks = [np.asarray(grams[str(block)][:]) for block in range(3)]
    return sha256(b"".join(block.tobytes() for block in blocks)).hexdigest()


def completed(trial, prepared):
    """Run the command again, in this process; compare everything with an undisturbed run."""
    succeeded(command(release_command, *trial.options(prepared.prefix)))
    assert genotype_sums(trial) == prepared.sums
    with Ledger(trial.ledger, create=False) as ledger:
        assert ledger.verify() == []
        (balance,) = ledger.balances()
    (published,) = balance.charges
    assert len(published.release_digests) == 1
    assert all(finding.ok for finding in release_findings(trial.release))
    assert trial.staging() == []


AIMS: dict[str, Callable[[Trial], object]] = {
    "anywhere": lambda trial: True,
    "imports": lambda trial: True,
    "compilation": lambda trial: any((trial.directory / "numba").rglob("*.nbc")),
    "charge": lambda trial: trial.ledger.exists(),
    "draw": lambda trial: (trial.work / "private_statistics").exists(),
    "publication": lambda trial: trial.staging() or trial.release.exists(),
}
# Number of trials, and longest delay of the signal in seconds; None means a whole release.
Trials = dict[str, tuple[int, float | None]]
TRIALS: Trials = {
    "anywhere": (8, None),
    "imports": (3, 1.5),
    "compilation": (2, 4.0),
    "charge": (4, 0.3),
    "draw": (4, 0.3),
    "publication": (4, 0.3),
}
FROM_THE_START = ("anywhere", "compilation")


KILLS: Trials = {"anywhere": (4, None), "draw": (4, 0.3), "publication": (4, 0.3)}


def numbered(trials):
    return [(aim, number) for aim, (count, _) in trials.items() for number in range(count)]


def strike(trial, prepared, aim, number, trials, blow):
    """Run the command with a signal at a random time; return its exit code and output."""
    environment = dict(os.environ)
    if aim == "compilation":
        environment["NUMBA_CACHE_DIR"] = str(trial.directory / "numba")
    if aim not in FROM_THE_START:
        shutil.copytree(prepared.work, trial.work)
    longest = trials[aim][1]
    delay = random.uniform(0, longest or prepared.seconds)
    print(f"signal after {delay:.4f} s")
    words = trial.command(prepared.prefix)
    with started(words, environment, trial.directory / "stderr") as process:
        wait_until(lambda: is_noting_signals(process), of=process)
        wait_until(lambda: AIMS[aim](trial), of=process)
        time.sleep(delay)
        if blow == signal.SIGKILL:
            kill_group(process)
        else:
            process.send_signal(blow)
        stdout, _ = process.communicate(timeout=PATIENCE_SECONDS)
    return process.returncode, stdout


@pytest.mark.parametrize(("aim", "number"), numbered(TRIALS))
def test_sigterm_ends_with_exit_code_5_or_a_completed_release(
    aim, number, prepared, tmp_path, request
):
    trial = Trial(tmp_path, workers=number % 8 == 0)
    code, stdout = strike(trial, prepared, aim, number, TRIALS, signal.SIGTERM)
    stderr = (tmp_path / "stderr").read_text()
    request.node.user_properties.append(("exit_code", code))
    assert code in (0, 5), stderr
    if code == 5:
        again = shlex.join(trial.command(prepared.prefix))
        assert error_in(stderr) == f"error: interrupted. To continue: {again}"
    else:
        assert stdout.endswith(f"release: {trial.release}\n")
    drawn = trial.noise()
    completed(trial, prepared)
    assert drawn in ([], trial.noise()), "the noise that was drawn is the noise of the release"


@pytest.mark.parametrize(("aim", "number"), numbered(KILLS))
def test_a_kill_is_followed_by_one_release(aim, number, prepared, tmp_path, request):
    trial = Trial(tmp_path, workers=number % 4 == 0)
    code, _ = strike(trial, prepared, aim, number, KILLS, signal.SIGKILL)
    completed(trial, prepared)
    request.node.user_properties.append(("exit_code", code))
