"""A failure on a worker discloses nothing about people, in logs or exceptions."""

import pickle
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from distributed.core import error_message
from support.security_runs import N_OBSERVED, N_PEOPLE, run
from support.stores import flip_a_bit

from primo_scale.accumulation.plan import RowTask
from primo_scale.accumulation.tasks import run_task
from primo_scale.errors import InputError, PrimoError, ResourceError
from primo_scale.version import __version__

PRIVATE = [
    r"Family\d", r"Person\d",
    # Not digits of the names that Dask draws, as in 1f0c-7919-8a2e, nor of seconds it measures.
    *(rf"(?<![\w.-]){number}(?![\w-]|\.\d)" for number in (N_PEOPLE, N_OBSERVED)),
    r"(?i)checksum", r"(?i)stored:", r"array\(", r"HEIGHT",
]  # fmt: skip


def private_words(text):
    return [found for pattern in PRIVATE for found in re.findall(pattern, text)]


def accumulate(cohort, genotypes, cluster, work):
    options = [*cohort.outcome_options, "--non-private", *cluster.options]
    return run("accumulate", "--genotypes", genotypes, "--work-dir", work, *options)


@pytest.fixture(scope="module")
def outcomes_aligned(cohort, running_cluster, tmp_path_factory):
    """Make a genotype store, and a work directory with aligned outcomes that must sum again."""
    directory = tmp_path_factory.mktemp("aligned")
    genotypes, work = directory / "genotypes.zarr", directory / "work"
    assert run("ingest", "--bfile", cohort.directory / "cohort", "--out", genotypes).returncode == 0
    result = accumulate(cohort, genotypes, running_cluster, work)
    assert result.returncode == 0, result.stderr
    shutil.rmtree(work / "statistics.zarr")
    return directory


def damage_genotypes(genotypes, work):
    flip_a_bit(genotypes / "genotypes" / "c" / "0" / "0")


def damage_outcomes(genotypes, work):
    flip_a_bit(work / "outcomes.zarr" / "rows" / "c" / "0" / "0")


@pytest.mark.parametrize("damage", [damage_genotypes, damage_outcomes])
@pytest.mark.slow
def test_a_failed_task_names_the_file_and_nothing_else(
    damage, cohort, outcomes_aligned, running_cluster, tmp_path
):
    shutil.copytree(outcomes_aligned, tmp_path, dirs_exist_ok=True)
    genotypes, work = tmp_path / "genotypes.zarr", tmp_path / "work"
    damage(genotypes, work)
    before = running_cluster.logs

    result = accumulate(cohort, genotypes, running_cluster, work)
    assert result.returncode == 3, result.stderr
    last = result.stderr.strip().splitlines()[-1]
    assert re.fullmatch(r"error: \S+(zarr|/c/0/0\S*|rows|genotypes): a stored chunk is .*", last)
    logged = running_cluster.logs[len(before) :]
    assert "Compute Failed" in logged, "the worker logs no failed task, so nothing was tested"
    assert private_words(running_cluster.logs) == []


def test_the_words_searched_for_are_found_where_they_are():
    text = f"Person7 of {N_PEOPLE}: Stored and computed checksum do not match. Stored: b'..'"
    assert len(private_words(text)) >= 4


def failing_with(error, monkeypatch):
    """Return the exception that leaves a task in which `error` is raised, on a worker."""
    monkeypatch.setattr("socket.gethostname", lambda: "node7")

    def fail(*_):
        secret = np.arange(5)
        try:
            raise ValueError(f"Stored: {secret}")
        except ValueError as cause:
            raise error from cause

    monkeypatch.setattr("primo_scale.accumulation.tasks._open_partials", fail)
    with pytest.raises(type(error) if isinstance(error, KeyboardInterrupt) else PrimoError) as left:
        run_task((Path("/store"), "id", "auto", __version__), RowTask(0))
    return left.value


@pytest.mark.parametrize(
    ("error", "kind", "line"),
    [
        (InputError("is damaged", where="f", value=41, limit=42, remedy="Go"), InputError,
         "f: is damaged on worker node7. Go"),
        (ValueError("shape (41,)"), PrimoError, r"tasks.py:\d+: a task failed on worker node7: "
         "ValueError. Please report this line"),
        (OSError("41 bytes"), PrimoError, r"tasks.py:\d+: a task failed on .* OSError.*"),
        (FileNotFoundError(2, "No such file", "f"), InputError, "f: No such file on worker node7"),
        (OSError(28, "No space left", "f"), ResourceError, "f: the disk is full on .*. Free space"),
        (MemoryError("shape (41,)"), ResourceError, "not enough memory on worker node7. .*"),
    ],
)  # fmt: skip
def test_an_exception_leaves_its_values_causes_and_frames_behind(error, kind, line, monkeypatch):
    left = failing_with(error, monkeypatch)
    assert type(left) is kind
    assert re.fullmatch(line, str(left))
    assert left.__cause__ is None
    assert left.__context__ is None
    frames = []
    trace = left.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame.f_code.co_name)
        trace = trace.tb_next
    assert frames[1:] == ["run_task"]  # the first is the test's own
    sent = sent_to_the_scheduler(left)
    assert not re.search(rb"41|Stored", sent)
    again = pickle.loads(pickle.dumps(left))
    assert (type(again), str(again)) == (type(left), str(left))


def sent_to_the_scheduler(error):
    message = error_message(error)
    return pickle.dumps([getattr(part, "data", part) for part in message.values()])


def test_stopping_a_worker_is_not_a_failure_of_its_task(monkeypatch):
    failing_with(KeyboardInterrupt(), monkeypatch)
