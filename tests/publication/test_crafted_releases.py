"""Verification gives a verdict on any directory, in bounded memory."""

import gzip
import random
import shutil
import tracemalloc
import zlib
from collections import Counter
from pathlib import Path

import pytest
from support.documents import read_document
from support.release_edits import forge, rewrite
from support.release_examples import PUBLIC_KEY, publish_example
from support.release_mutations import ATTACKER, mutate
from support.small_cohort import command

from primo_scale.cli.commands import verify
from primo_scale.verify.files import LARGEST_DOCUMENT
from primo_scale.verify.release import release_findings

TRIALS, SEEDS = 100, 8
MODES = ("full", "label-add-remove", "subsampled", "ada-ssp", "naive")
MOST_MEMORY = 64 << 20


def contents(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def check_verdict(directory: Path, changed: bool, about: str) -> None:
    for key in (None, PUBLIC_KEY):
        findings = release_findings(directory, public_key=key)
        assert findings, about
        assert all(len(finding.detail) < 5_000 for finding in findings), about
        good = all(finding.ok for finding in findings)
    assert not (good and changed), about


@pytest.fixture(scope="module")
def originals(tmp_path_factory) -> list[Path]:
    root = tmp_path_factory.mktemp("originals")
    private = [publish_example(root / mode, mode=mode) for mode in MODES]
    return [*private, publish_example(root / "open", private=False)]


@pytest.mark.parametrize(
    ("seed", "trials"),
    [(-1, 60), *(pytest.param(seed, TRIALS, marks=pytest.mark.slow) for seed in range(SEEDS))],
)
def test_crafted_releases_get_a_verdict(originals, tmp_path, seed, trials) -> None:
    generator, kinds = random.Random(seed), Counter[str]()
    for trial in range(trials):
        directory = tmp_path / "release"
        original = generator.choice(originals)
        shutil.copytree(original, directory)
        kind = mutate(directory, generator)
        kinds[kind] += 1
        changed = contents(directory) != contents(original)
        about = f"seed {seed}, trial {trial}: {kind} of {original.name}"
        print(about)
        check_verdict(directory, changed, about)
        if trial % 10 == 0:
            result = command(verify, directory)
            assert result.exit_code in (0, 1), (about, result.exception)
            assert "Traceback" not in result.stderr
            assert all(line.isprintable() for line in result.stdout.splitlines()), about
        shutil.rmtree(directory)
    assert sum(kinds.values()) == trials and len(kinds) == 7


def peak_of(directory: Path) -> int:
    release_findings(directory)  # imports and caches
    tracemalloc.start()
    try:
        assert not all(finding.ok for finding in release_findings(directory))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("unit", [b"A" * (32 << 20), b"A\n" * (16 << 20), b"A\t" * (16 << 20)])
def test_a_small_file_that_unpacks_to_gigabytes_is_refused(release, unit) -> None:
    """The text is one line, empty rows, or one row of a billion columns, in one gzip member."""
    path = release / "weights.tsv.gz"
    packer = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    start, bomb = (
        packer.compress(text) + packer.flush(zlib.Z_FULL_FLUSH)
        for text in (gzip.decompress(path.read_bytes()), unit)
    )
    path.write_bytes(b"\x1f\x8b\x08" + bytes(7) + start + bomb * 100)
    assert path.stat().st_size < 5 << 20
    forge(release, read_document(release), ATTACKER)
    assert peak_of(release) < MOST_MEMORY


def test_rows_of_more_variants_than_stated_end_the_reading(release) -> None:
    rows = "".join(f"v{number}\tA\tG\t1\t{number}\t0\t0\n" for number in range(300_000))
    rewrite(release, "weights.tsv.gz", lambda old: old.split("\n")[0] + "\n" + rows, ATTACKER)
    assert peak_of(release) < MOST_MEMORY


def test_a_document_of_gigabytes_is_refused_unread(release) -> None:
    with (release / "release.json").open("r+b") as file:
        file.truncate(4 << 30)
    assert peak_of(release) < MOST_MEMORY


@pytest.mark.parametrize("name", ["report.html"])
def test_a_text_larger_than_any_is_refused(release, name) -> None:
    with (release / name).open("r+b") as file:
        file.truncate(LARGEST_DOCUMENT + 1)
    forge(release, read_document(release), ATTACKER)
    (finding,) = [finding for finding in release_findings(release) if finding.check == "contents"]
    assert f"{name} cannot be read: is larger than" in finding.detail
    assert peak_of(release) < MOST_MEMORY


@pytest.mark.parametrize("text", ["[" + "[]," * (5 << 20) + "[]]", "{" * (16 << 20)])
def test_a_document_of_millions_of_lists_is_refused_unparsed(release, text) -> None:
    (release / "release.json").write_text(text)
    (finding,) = release_findings(release)
    assert not finding.ok and "more than" in finding.detail
    assert peak_of(release) < MOST_MEMORY
