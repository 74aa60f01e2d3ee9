"""Whatever a document of the work directory or a given file holds, a command ends in one line."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import socket
from pathlib import Path

import pytest
from small_cohort import Cohort, command, write_cohort
from tiers import thinned

from primo_scale.cli import ingest, show_cluster, status, verify
from primo_scale.errors import InputError
from primo_scale.privacy.noise_store import NoiseStore
from primo_scale.run.purge import is_done_and_purged
from primo_scale.run.request import FinalizeRequest
from primo_scale.run.work_directory import _Claims

DEEP = "[" * 100_000
CONTENTS = {
    "nothing": "", "junk": "\x00junk", "null": "null", "list": "[]", "object": "{}", "text": '"x"',
    "deep": DEEP, "long": "1" * 5_000, "latin": b"\xff\xfe{}", "number": "1e999",
}  # fmt: skip
PRIVATE = ["--epsilon", 1, "--delta", 1e-6]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Cohort:
    """A cohort, its published release and the work directory of both."""
    cohort = Cohort(write_cohort(tmp_path_factory.mktemp("made") / "cohort"))
    result = cohort.release(budget=PRIVATE)
    assert result.exit_code == 0, result.stderr
    return cohort


@pytest.fixture
def published(made, tmp_path) -> Cohort:
    """A copy to be tampered with."""
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
    "status": lambda cohort: command(status.main, cohort.folder / "release.work"),
    "verify": lambda cohort: command(verify.main, cohort.out),
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
    ("file", "content"), thinned(itertools.product(STOPPED, CONTENTS), every=3)
)
def test_a_damaged_document_is_one_line(published, file, content) -> None:
    for name, run in COMMANDS.items():
        put(published.folder / file, CONTENTS[content])  # a command may have mended it
        result = run(published)
        ended_in_one_line(result)
        if name in STOPPED[file]:
            assert result.exit_code == 3, (name, result.stderr)


@pytest.mark.parametrize("content", CONTENTS)
def test_a_damaged_release_does_not_verify(tmp_path, content) -> None:
    put(tmp_path / "release.json", CONTENTS[content])
    result = command(verify.main, tmp_path)
    assert result.exit_code == 1 and "NOT VERIFIED" in result.stdout


@pytest.mark.parametrize(
    "content", [*CONTENTS.values(), '{"name": 5, "urls": []}', '{"name": "x", "urls": "abc"}',
                '{"name": "x", "urls": [1]}'],
)  # fmt: skip
def test_a_damaged_claim_is_one_line(tmp_path, content) -> None:
    put(tmp_path / "object_store.claim", content)
    with pytest.raises(InputError, match=r"object_store\.claim: is damaged"):
        _Claims.of(tmp_path)


@pytest.mark.parametrize(
    "content", [*CONTENTS.values(), '{"release": 5}', '{"release": "x", "genotypes": 1}']
)
def test_a_damaged_purge_note_is_one_line_and_deletes_nothing(tmp_path, content) -> None:
    put(tmp_path / "purged.json", content)
    put(tmp_path / "design.json", "{}")
    with pytest.raises(InputError, match=r"purged\.json: is damaged"):
        is_done_and_purged(FinalizeRequest(work_dir=tmp_path, out=tmp_path / "r", non_private=True))
    assert (tmp_path / "design.json").exists()


@pytest.mark.parametrize("content", [*CONTENTS.values(), '{"sums": [["x"]], "sigma": 1.0}'])
def test_damaged_moments_are_one_line(tmp_path, content) -> None:
    put(tmp_path / "phenotype_moments.json", content)
    with pytest.raises(InputError, match=r"phenotype_moments\.json: is damaged"):
        NoiseStore(tmp_path / "private_statistics").read_moments()


@pytest.mark.parametrize("content", CONTENTS.values())
def test_a_damaged_request_of_an_ingest_is_one_line(cohort, tmp_path, content) -> None:
    partial = tmp_path / "g.zarr.partial"
    partial.mkdir(mode=0o700)
    put(partial / "request.json", content)
    bfile = cohort.folder / "cohort"
    result = command(ingest.main, "--bfile", bfile, "--out", tmp_path / "g.zarr")
    ended_in_one_line(result)
    assert result.exit_code == 3 and "request.json: is damaged" in result.stderr


@pytest.mark.parametrize("key", ["boundaries", "sha256", "inputs", "plan_digest"])
def test_a_missing_attribute_of_the_statistics_is_one_line(published, key) -> None:
    header = published.folder / "release.work/statistics.zarr/zarr.json"
    document = json.loads(header.read_text())
    del document["attributes"][key]
    header.write_text(json.dumps(document))
    for run in (run_finalize, run_accumulate):
        ended_in_one_line(run(published))


@pytest.mark.parametrize(
    "content", ["workers = " + "1" * 5_000, "a = " + "[" * 3_000 + "]" * 3_000,
                "a" + ".a" * 3_000 + " = 1", "\x00", "= 3"],
)  # fmt: skip
def test_a_profile_of_a_cluster_is_no_traceback(tmp_path, content) -> None:
    put(tmp_path / "c.toml", content)
    result = command(show_cluster.main, tmp_path / "c.toml")
    ended_in_one_line(result)
    assert result.exit_code == 3


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
    ended_in_one_line(result)
    assert result.exit_code == 3 and "x.bed: is a pipe, a socket or a device" in result.stderr


@pytest.mark.parametrize("option", ["--pheno", "--bfile", "--out", "--work-dir"])
def test_a_path_that_is_not_utf8_is_one_line(cohort, tmp_path, option) -> None:
    result = cohort.release(option, os.fsdecode(os.fsencode(tmp_path) + b"/p\xff"))
    ended_in_one_line(result)
    assert result.exit_code == 2 and "not UTF-8" in result.stderr
    assert not cohort.out.exists()
