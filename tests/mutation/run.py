"""Apply the faults of the table one at a time, and run the tests that must notice each.

The program first lists the faults that do not fit the product any more (stale), and refuses to go
on if there are any; ``--check`` does no more. It works on temporary copies of the tree, one for
each job, and never on the checkout. It runs every chosen test file without a fault, each in a
process of its own, and refuses to go on where one fails. Then each fault is applied to a copy, its
tests run until the first failure, and the file is restored.

    python tests/mutation/run.py [--check] [--jobs 2] [--table ledger] [--only NAME ...]

Exit code 0: every fault is killed or explained; 1: a fault survives; 2: a fault is stale, or the
table or a test is broken.
"""

import argparse
import itertools
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from queue import SimpleQueue

from fault_table import ROOT, BrokenTableError, Fault, Product, StaleFaultError, read_faults

QUICK = "not slow and not chaos and not cluster and not s3"
# A fault may make a test wait for ever: its tests get so many times what they take without it.
_PATIENCE, _LEAST_SECONDS = 5, 60.0
_PASSED, _FAILED, _NOT_COLLECTED = 0, 1, 2
_PYC_CLOCK_NS = 1_000_000_000
# The same random examples with and without a fault, so that no fault is killed by chance.
_ARGUMENTS = ["-q", "-x", "-p", "no:cacheprovider"]
_ARGUMENTS += ["--hypothesis-seed=0", "--hypothesis-profile=many"]
# Imported once, in the server from which every run of tests is forked: three seconds a run.
_PRELOADED = ["dask", "distributed", "hypothesis", "jsonschema", "mpmath", "numba", "pandas"]
_PRELOADED += ["pytest", "scipy.optimize", "scipy.stats", "zarr"]
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(_PRELOADED)


class Outcome(StrEnum):
    """What became of a fault."""

    KILLED = "killed"
    KILLED_SLOWLY = "killed by slow tests"
    EXPLAINED = "explained"
    SURVIVED = "SURVIVED"


@dataclass(frozen=True)
class Verdict:
    """Outcome of one fault, with the first test that failed."""

    fault: Fault
    outcome: Outcome
    killer: str
    seconds: float


class Tree:
    """Temporary copy of the tree in a new directory, in which one fault is applied at a time."""

    _clock = itertools.count(1)

    def __init__(self, path: Path) -> None:
        self.path = path
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for name in filter(None, names.split("\0")):
            if (ROOT / name).is_file():
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, path / name)

    @contextmanager
    def with_content(self, path: str, faulty: str) -> Iterator[None]:
        """Replace the content of a file during the block."""
        file = self.path / path
        product, times = file.read_text(encoding="utf-8"), file.stat()
        file.write_text(faulty, encoding="utf-8")
        # Python and Numba know compiled code by the time of its source: each fault has its own.
        changed = times.st_mtime_ns + next(self._clock) * _PYC_CLOCK_NS
        os.utime(file, ns=(changed, changed))
        try:
            yield
        finally:
            file.write_text(product, encoding="utf-8")
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))

    def run_tests(self, tests: Sequence[str], *, limit: float, quick: bool) -> tuple[int, str]:
        """Run tests until the first failure; return pytest's exit code and the failed test.

        Tests that take longer than `limit` seconds count as failed.
        """
        shutil.rmtree(self.path / ".hypothesis", ignore_errors=True)
        paths = [path_of(test) for test in tests]
        arguments = [*_ARGUMENTS, *(("-m", QUICK) if quick else ()), *paths]
        with tempfile.NamedTemporaryFile("r", encoding="utf-8", errors="replace") as output:
            process = _PROCESSES.Process(target=_pytest, args=(self.path, arguments, output.name))
            process.start()
            process.join(limit)
            if process.exitcode is None:
                os.killpg(process.pid or 0, signal.SIGKILL)
                process.join()
                return _FAILED, f"no end within {limit:.0f} s"
            lines = output.read().strip().splitlines() or ["no output"]
        failed = (line for line in lines if line.startswith(("FAILED ", "ERROR ")))
        return process.exitcode, next(failed, lines[-1]).split(" - ")[0]


def _pytest(tree: Path, arguments: list[str], output: str) -> None:
    """Run pytest in this new process on the product of a copy of the tree."""
    os.setsid()
    os.chdir(tree)
    os.environ["PYTHONPATH"] = str(tree)
    sys.path.insert(0, str(tree))
    descriptor = os.open(output, os.O_WRONLY)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    import pytest

    import primo_scale

    if not Path(primo_scale.__file__).is_relative_to(tree):
        raise BrokenTableError(f"{tree}: Python imports the product from {primo_scale.__file__}")
    code = pytest.main(arguments)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


class Trees:
    """Copies of the tree, lent to one job each."""

    def __init__(self, directory: Path, jobs: int) -> None:
        self._free: SimpleQueue[Tree] = SimpleQueue()
        for number in range(jobs):
            self._free.put(Tree(directory / str(number)))

    @contextmanager
    def one(self) -> Iterator[Tree]:
        """Lend a copy."""
        tree = self._free.get()
        try:
            yield tree
        finally:
            self._free.put(tree)

    def seconds_of(self, test: str) -> float:
        """Return how long a test file takes without a fault, or raise a BrokenTableError."""
        start = time.monotonic()
        with self.one() as tree:
            code, failed = tree.run_tests([test], limit=1800, quick="::" not in test)
        if code != _PASSED:
            raise BrokenTableError(f"{test} fails without any fault: {failed}")
        return time.monotonic() - start

    def verdict(self, fault: Fault, faulty: tuple[str, str], seconds: dict[str, float]) -> Verdict:
        """Run the tests of a fault, which changes a file to the given content."""
        start = time.monotonic()
        with self.one() as tree, tree.with_content(*faulty):
            for tests, outcome in (
                (fault.tests, Outcome.KILLED),
                (fault.slow_tests, Outcome.KILLED_SLOWLY),
            ):
                if not tests:
                    continue
                limit = max(_LEAST_SECONDS, _PATIENCE * sum(seconds[test] for test in tests))
                quick = outcome is Outcome.KILLED
                code, failed = tree.run_tests(tests, limit=limit, quick=quick)
                if code in (_FAILED, _NOT_COLLECTED) or code < 0:
                    return Verdict(fault, outcome, failed, time.monotonic() - start)
                if code != _PASSED:
                    raise BrokenTableError(f"{fault.name}: pytest ends with {code}: {failed}")
        outcome = Outcome.EXPLAINED if fault.explained else Outcome.SURVIVED
        return Verdict(fault, outcome, "", time.monotonic() - start)


def table_of(verdicts: Iterable[Verdict]) -> str:
    """Return the outcomes by table, as a Markdown table."""
    counts: dict[str, Counter[Outcome]] = {}
    for verdict in verdicts:
        counts.setdefault(verdict.fault.table, Counter())[verdict.outcome] += 1
    lines = ["| table | faults | " + " | ".join(o.value for o in Outcome) + " |"]
    lines += ["|---|" + "---|" * (1 + len(Outcome))]
    total: Counter[Outcome] = sum(counts.values(), Counter())
    for table, found in (*sorted(counts.items()), ("**all**", total)):
        row = [found.total(), *(found[outcome] for outcome in Outcome)]
        lines.append(f"| {table} | " + " | ".join(map(str, row)) + " |")
    unexplained = total.total() - total[Outcome.EXPLAINED]
    killed = unexplained - total[Outcome.SURVIVED]
    return "\n".join([*lines, "", f"score: {killed} of {unexplained} ({killed / unexplained:.1%})"])


def stale_faults(faults: Iterable[Fault], product: Product) -> list[str]:
    """Return the faults that do not fit the product or name a missing test, with the reason."""
    stale = []
    for fault in faults:
        try:
            product.with_fault(fault)
            for test in (*fault.tests, *fault.slow_tests):
                path_of(test)
        except StaleFaultError as error:
            homes = ", ".join(product.homes(fault)) or "nowhere"
            stale.append(
                f"{fault.table}/{fault.name}: {error}\n  why: {fault.why}\n  in:  {fault.function}"
                f"\n  old: {fault.old.strip()}\n  new: {fault.new.strip()}\n  now: {homes}"
            )
    return stale


@cache
def path_of(test: str) -> str:
    """Return the path of a test file by its name without ``test_``, with the ``::test`` if any."""
    stem, *inner = test.split("::")
    found = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob(f"test_{stem}.py")]
    if len(found) != 1:
        raise StaleFaultError(f"{len(found)} files are named test_{stem}.py")
    return "::".join([*found, *inner])


def run(faults: Sequence[Fault], jobs: int, product: Product) -> list[Verdict]:
    """Run the tests without a fault, then with each fault; print verdicts as they come.

    A test that fails without a fault raises a BrokenTableError.
    """
    tests = sorted({test for fault in faults for test in (*fault.tests, *fault.slow_tests)})
    verdicts = []
    with tempfile.TemporaryDirectory(prefix="primo-scale-mutation-") as directory:
        trees = Trees(Path(directory), jobs)
        with ThreadPoolExecutor(jobs) as threads:
            seconds = dict(zip(tests, threads.map(trees.seconds_of, tests), strict=True))
            print(f"{len(tests)} test files pass without a fault", flush=True)
            faulty = [product.with_fault(fault) for fault in faults]
            for verdict in threads.map(trees.verdict, faults, faulty, itertools.repeat(seconds)):
                verdicts.append(verdict)
                print(
                    f"{verdict.outcome:9} {verdict.seconds:5.0f} s  {verdict.fault.table}/"
                    f"{verdict.fault.name}  {verdict.killer}",
                    flush=True,
                )
    return verdicts


def main() -> int:
    """Run the faults that the command line names; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=1, help="faults side by side")
    parser.add_argument("--check", action="store_true", help="list stale faults, and run nothing")
    parser.add_argument("--table", action="append", help="faults of a file of faults/")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="faults of these names")
    asked = parser.parse_args()
    try:
        faults = [
            fault
            for fault in read_faults()
            if (not asked.table or fault.table in asked.table)
            and (not asked.only or fault.name in asked.only)
        ]
        if not faults:
            raise BrokenTableError("no fault has such a name or table")
        product = Product(ROOT)
        if stale := stale_faults(faults, product):
            print("\n".join(stale))
            raise BrokenTableError(f"{len(stale)} of {len(faults)} faults are stale")
        print(f"all {len(faults)} faults fit the product", flush=True)
        if asked.check:
            return 0
        verdicts = run(faults, asked.jobs, product)
    except BrokenTableError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"\n{table_of(verdicts)}")
    survivors = [verdict.fault for verdict in verdicts if verdict.outcome is Outcome.SURVIVED]
    for fault in survivors:
        print(f"survives: {fault.table}/{fault.name} ({fault.function}): {fault.why}")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
