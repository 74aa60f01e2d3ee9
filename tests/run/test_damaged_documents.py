"""Whatever a document of the work directory or a given file holds, a command ends in one line."""

import itertools
import json
import os
import re
import shutil
import socket
from pathlib import Path

import pytest
from support.small_cohort import Cohort, command, refused, succeeded, write_cohort
from support.tiers import thinned

from primo_scale.cli.commands import status, verify
from primo_scale.errors import InputError
from primo_scale.privacy.payment import NoiseStore
from primo_scale.run.options import FinalizeRequest
from primo_scale.run.purge import is_done_and_purged
from primo_scale.run.work_directory import _Claims

DEEP = "[" * 100_000
CONTENTS = {
    "nothing": "", "junk": "\x00junk", "null": "null", "list": "[]", "object": "{}", "text": '"x"',
    "deep": DEEP, "long": "1" * 5_000, "latin": b"\xff\xfe{}", "number": "1e999",
}  # fmt: skip
PRIVATE = ["--epsilon", 1, "--delta", 1e-6]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Cohort:
    cohort = Cohort(write_cohort(tmp_path_factory.mktemp("made") / "cohort"))
    succeeded(cohort.release(budget=PRIVATE))
    return cohort


@pytest.fixture
def published(made, tmp_path) -> Cohort:
    return made.copy_to(tmp_path / "copy")


def run_finalize(cohort: Cohort):
    return cohort.finalize("--work-dir", cohort.folder / "release.work", budget=PRIVATE)


def run_accumulate(cohort: Cohort):
    work = cohort.folder / "release.work"
    return cohort.accumulate("--genotypes", work / "genotypes.zarr", "--work-dir", work)


COMMANDS = {
    "gwas_release": lambda cohort: cohort.release(budget=PRIVATE),
    "finalize": run_finalize,
    "accumulate": run_accumulate,
    "status": lambda cohort: command(status, cohort.folder / "release.work"),
    "verify": lambda cohort: command(verify, cohort.out),
}
# Which commands each file stops; the others must not end in a traceback either.
STOPPED = {
    "release.work/purged.json": {"gwas_release", "finalize", "accumulate"},
    "release.work/design.json": {"finalize"},
    "release.work/statistics.zarr/zarr.json": {"finalize", "accumulate", "gwas_release"},
    "release.work/genotypes.zarr/zarr.json": {"finalize", "accumulate", "gwas_release"},
    "release/release.json": {"finalize", "gwas_release"},
}


def put(path: Path, content: str | bytes) -> None:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def ended_in_one_line(result) -> None:
    assert isinstance(result.exception, SystemExit | None), repr(result.exception)
    assert "Traceback" not in result.stderr
    errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == (result.exit_code in (2, 3, 4, 6)), result.stderr


@pytest.mark.parametrize(
    ("file", "content"), thinned(list(itertools.product(STOPPED, CONTENTS))[::3], every=3)
)
def test_a_damaged_document_is_one_line(published, file, content) -> None:
    for name, run in COMMANDS.items():
        put(published.folder / file, CONTENTS[content])  # a command may have mended it
        result = run(published)
        ended_in_one_line(result)
        if name in STOPPED[file]:
            assert result.exit_code == 3, (name, result.stderr)


def test_a_design_of_an_earlier_version_belongs_to_its_statistics(published) -> None:
    path = published.folder / "release.work" / "design.json"
    choices = json.loads(path.read_text())
    del choices["genetic_factors"]
    path.write_text(json.dumps(choices))
    assert run_finalize(published).exit_code == 0


def is_purged(folder: Path) -> bool:
    return is_done_and_purged(FinalizeRequest(work_dir=folder, out=folder / "r", non_private=True))


# How each document is read, and contents that are JSON objects of another kind.
READERS = {
    "object_store.claim": (_Claims.of, [
        '{"name": 5, "urls": []}', '{"name": "x", "urls": "abc"}', '{"name": "x", "urls": [1]}',
    ]),
    "purged.json": (is_purged, ['{"release": 5}', '{"release": "x", "genotypes": 1}']),
    "adjustment.json": (
        lambda folder: NoiseStore(folder / "private_statistics").read_adjustment(),
        ['{"grams": [[["x"]]], "sigma": 1.0}'],
    ),
}  # fmt: skip


@pytest.mark.parametrize("file", READERS)
def test_a_damaged_document_of_the_run_is_one_line_and_deletes_nothing(tmp_path, file) -> None:
    read, others = READERS[file]
    put(tmp_path / "design.json", "{}")
    for content in (*CONTENTS.values(), *others):
        put(tmp_path / file, content)
        with pytest.raises(InputError, match=rf"{re.escape(file)}: is damaged") as caught:
            read(tmp_path)
        assert "\n" not in str(caught.value)
    assert (tmp_path / "design.json").exists()


@pytest.mark.parametrize("kind", ["fifo", "device", "socket"])
@pytest.mark.parametrize("option", ["--bfile", "--pheno", "--keep", "--ref-freq", "--ledger"])
def test_what_would_be_read_for_ever_is_refused(cohort, tmp_path, kind, option) -> None:
    special = tmp_path / "x.bed"
    if kind == "fifo":
        os.mkfifo(special)
    elif kind == "device":
        special.symlink_to("/dev/zero")
    else:
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(os.path.relpath(special))
    for extension in (".bim", ".fam"):
        shutil.copy(cohort.folder / f"cohort{extension}", tmp_path / f"x{extension}")
    result = cohort.release(option, tmp_path / "x" if option == "--bfile" else special)
    refused(result, 3, "x.bed: is a pipe, a socket or a device")


@pytest.mark.parametrize("option", ["--pheno", "--bfile", "--out", "--work-dir"])
def test_a_path_that_is_not_utf8_is_one_line(cohort, tmp_path, option) -> None:
    result = cohort.release(option, os.fsdecode(os.fsencode(tmp_path) + b"/p\xff"))
    refused(result, 2, "not UTF-8")
    assert not cohort.out.exists()
