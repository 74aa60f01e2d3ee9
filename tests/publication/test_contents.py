"""Verification of files that contradict release.json although digests and signature fit."""

import gzip
import random
import re
import zlib
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.documents import put, read_document
from support.release_edits import cell, forge, problems, restate, rewrite
from support.release_examples import publish_example

from primo_scale import __version__
from primo_scale.genotypes.coding import MatchCounts, MatchedFrequencies, reference_coding
from primo_scale.verify import files as gzip_files
from primo_scale.verify.files import UNREADABLE
from primo_scale.verify.formats import centre_frequency
from primo_scale.verify.release import verify
from primo_scale.verify.tables import _NUMBERS, possible_frequencies


def test_an_honest_release_signed_again_verifies(release, open_release):
    for directory in (release, open_release):
        forge(directory, read_document(directory))
        assert problems(directory) == []
        assert verify(directory).private is (directory == release)


WEIGHTS, CENTRE, COVARIATES = "weights.tsv.gz", "centre.afreq", "covariates.tsv"
PGS = ("pgs/height.txt.gz", "pgs/LDL.txt.gz")


@pytest.mark.parametrize(
    ("name", "change", "what"),
    [
        *((name, cell(-3, column, text), f"{name} has another") for name in PGS
          for column, text in enumerate(["rs99", "21", "1", "C", "C", "0.25"])),
        *((PGS[1], lambda old, line=line: old.replace("#weight_type", line + "#weight_type"),
           f"{PGS[1]} has another")
          for line in ("#n_samples=4711\n", "##4711\n", "#genome_build=NR\n")),
        *((WEIGHTS, cell(3, 7, text), f"{WEIGHTS} line 4 has a weight that is not finite or has")
          for text in ("0.10", "1e0", "+1", " 1", "1_0", "0.12345678912", "inf")),
        (WEIGHTS, cell(2, 6, "0.123456789"), f"{PGS[0]} has another"),
        *((WEIGHTS, cell(1, 4, text), f"{WEIGHTS} line 2 has a position in another format")
          for text in ("abc", "1.5", "9" * 5_000, "", " 1", "1_0", "0100", "+100")),
        (WEIGHTS, cell(0, 5, "epsilon=4,delta=1e-07,unit=full,adjacency=replace-one"),
         f"{WEIGHTS} cannot be read: it has a header"),
        (WEIGHTS, cell(0, 5, "NOT_PRIVATE"), f"{WEIGHTS} cannot be read: it has a header"),
        *((WEIGHTS, change, WEIGHTS) for change in (
            lambda old: old[: old.rindex("rs6")], lambda old: old + "rs99\tA\tG\t22\t1\t.\t0\t0\n",
            lambda old: re.sub("\t[^\t\n]*\n", "\n", old), lambda old: "",
        )),
        (WEIGHTS, cell(3, 5, "4711"), f"{WEIGHTS} line 4 has '4711' in the column of the stamp"),
        (WEIGHTS, cell(3, 3, "21"), f"{WEIGHTS} has other chromosomes than release.json"),
        *((COVARIATES, change, COVARIATES) for change in (
            cell(0, 0, "##(4, 1e-07)-differentially private"), cell(1, 1, "n4711"),
            cell(2, 0, "AGE"), cell(3, 0, "n4711"), cell(2, 1, "0.10"), cell(3, 2, "nan"),
            cell(3, 2, "1\t4711"), lambda old: old + "SEX\t1\t1\n",
            lambda old: old[: old.rindex("AGE")], lambda old: old[:-1], lambda old: old + "\n",
        )),
        (CENTRE, cell(5, 4, "0.4711"), f"{CENTRE} line 6 has the frequency 0.4711, impossible"),
        (CENTRE, cell(5, 4, "0.50"), f"{CENTRE} line 6 has the frequency 0.50, impossible"),
        *((CENTRE, cell(5, column, text), f"{CENTRE} line 6 is not the row of rs3 with 2 as OBS_CT")
          for column, text in ((5, "2000"), (5, "1"), (1, "rs99"), (0, "21"), (2, "C"), (3, "C"))),
        (CENTRE, lambda old: old + "22\trs7\tG\tA\t0.5\t2\n", CENTRE),
        (CENTRE, lambda old: old[: old.rindex("22\t")], CENTRE),
        (CENTRE, lambda old: old.replace("#CHROM", "##n = 4711\n#CHROM"), CENTRE),
    ],
)  # fmt: skip
def test_a_file_must_be_what_the_writer_writes(name, change, what, release):
    rewrite(release, name, change)
    assert problems(release)[0].startswith(f"contents: {what}")
    assert {problem.split(":")[0] for problem in problems(release)} == {"contents"}


def with_comment(member: bytes) -> bytes:
    return member[:3] + b"\x10" + member[4:10] + b"n = 4711\0" + member[10:]


def of_two_members(content: bytes) -> bytes:
    """Return a gzip file of which plink2 reads the first half and Python reads everything."""
    half = len(content) // 2
    return gzip.compress(content[:half], mtime=0) + bytes(4) + gzip.compress(content[half:])


@pytest.mark.parametrize("isal", [True, False], ids=["isal", "zlib"])
@pytest.mark.parametrize(
    "pack",
    [
        of_two_members,
        lambda content: gzip.compress(content, mtime=0) + bytes(4),
        lambda content: gzip.compress(content, mtime=0) + with_comment(gzip.compress(b"")),
        lambda content: with_comment(gzip.compress(content, mtime=0)),
        lambda content: gzip.compress(content, mtime=4711),
    ],
    ids=["split", "zeros", "empty member", "comment", "time"],
)
@pytest.mark.parametrize("name", [WEIGHTS, *PGS, "sumstats/LDL.tsv.gz"])
def test_a_packed_file_is_one_member_without_header_fields(name, pack, isal, tmp_path, monkeypatch):
    """Other programs would read other weights than the verifier, or text that nobody compares."""
    release = publish_example(tmp_path / "release", summary=True)
    if not isal:
        monkeypatch.setattr(gzip_files, "_zlib", zlib)
    forge(release, read_document(release))
    assert problems(release) == []
    path = release / name
    path.write_bytes(pack(gzip.decompress(path.read_bytes())))
    forge(release, read_document(release))
    expected = f"contents: {name} cannot be read: it is not one gzip member without header fields"
    assert problems(release)[0].startswith(expected)


@pytest.mark.parametrize("module", [gzip_files._zlib, zlib], ids=["isal", "zlib"])
@pytest.mark.parametrize("size", [0, 1, 5_000, 100_000])
def test_a_packed_file_is_read_to_its_end_and_no_shorter(module, size, tmp_path, monkeypatch):
    monkeypatch.setattr(gzip_files, "_zlib", module)
    path, content = tmp_path / "file.gz", (random.Random(1).randbytes(size // 2) + bytes(size))
    path.write_bytes(gzip.compress(content, mtime=0))
    packed = path.read_bytes()
    for step in (1 << 10, 1 << 20):
        with gzip_files.open_gzip(path) as file:
            assert b"".join(iter(partial(file.read, step), b"")) == content
    for damaged in (packed[:-1], packed[:-8], packed[:11], packed[:-8] + b"\1" * 8, b""):
        path.write_bytes(damaged)
        with pytest.raises(UNREADABLE), gzip_files.open_gzip(path) as file:
            file.read()


@pytest.mark.parametrize("chromosomes", [["22", "X"], ["21"]])
def test_chromosomes_must_be_those_of_the_variants(chromosomes, release):
    restate(release, put(read_document(release), "chromosomes", chromosomes))
    (problem,) = problems(release)
    assert problem.startswith("contents: weights.tsv.gz has other chromosomes")


def with_frequencies(directory: Path, frequencies: list[str]) -> None:
    document = read_document(directory)
    document["public_inputs"] |= {
        "reference_frequencies": {"file": "panel.afreq", "sha256": "0" * 64},
        "genotype_unit": 16,
    }
    path = directory / "centre.afreq"
    stamp, header, *rows = path.read_text().splitlines()
    rows = [row.replace("\t0.5\t", f"\t{f}\t") for row, f in zip(rows, frequencies, strict=True)]
    path.write_text("\n".join([stamp, header, *rows, ""]))
    restate(directory, document)


def coded(frequencies: np.ndarray) -> list[str]:
    """Return the centres of a coding by these panel frequencies, as in centre.afreq."""
    matched = MatchedFrequencies(frequencies, MatchCounts(7, 7), Path("panel.afreq"), "0" * 64)
    return [centre_frequency(dosage) for dosage in reference_coding(matched).centre_dosage]


def test_a_panels_frequencies_pass_and_the_cohorts_do_not(release):
    rng = np.random.default_rng(3)
    with_frequencies(release, coded(rng.uniform(0, 1, 7)))
    assert problems(release) == []


def test_frequencies_counted_in_a_cohort_are_found(release):
    """The release would disclose how many copies of an allele 4,711 people have."""
    copies = np.random.default_rng(3).integers(0, 9422, 7)
    with_frequencies(release, [f"{count / 9422:.9g}" for count in copies])
    (problem,) = problems(release)
    assert "impossible in any coding" in problem


def test_all_frequencies_of_panels_are_possible_and_few_others():
    possible = possible_frequencies(informed=True)
    implied = set(coded(np.append(np.linspace(0, 1, 100_001), np.nan)))
    assert implied <= possible
    assert len(possible) < 2 * len(implied)
    assert all(Fraction(text).limit_denominator(254).denominator <= 254 for text in possible)
    assert possible_frequencies(informed=False) == {"0.5"}


FORGED = "This release is (0.01, 1e-12)-differentially private for all relatives."


TEXTS = (
    "software", "guarantee.versions.scipy", "ledger.cohort",
    "ledger.charge", "public_inputs.phenotypes.0.name", "public_inputs.ld_blocks",
    "mechanism.reason", "estimation.shrinkage", "accuracy.definition", "stamp",
)  # fmt: skip


@pytest.mark.parametrize(
    ("member", "text"),
    [*((member, f"{__version__}{between}{FORGED}") for member in TEXTS
       for between in ("\n", "\r", "\x1b[1m", "\x85", "\u2028", "\u202e", "\u2066")),
     ("software", f"primo_scale {__version__} {FORGED}"), ("software", "primo 0.0.9"),
     ("software", "primo_scale 0.0.9." + 36 * "1"), ("software", "primo_scale "),
     ("ledger.charge", FORGED)],
)  # fmt: skip
def test_a_text_of_more_lines_or_a_sentence_in_place_of_a_name_is_found(member, text, release):
    restate(release, put(read_document(release), member, text))
    (problem,) = problems(release)
    assert problem.startswith("release.json: violates its schema: ")


@pytest.mark.parametrize("name", ["README.txt", "report.html"])
def test_a_text_must_carry_the_stamp_and_be_of_this_release(name, release, open_release):
    """Anything else in it is the signer's word."""
    rewrite(release, name, lambda old: old + "more words")
    assert problems(release) == []
    for directory in (release, open_release):
        stamp = read_document(directory)["stamp"][:12]
        rewrite(directory, name, lambda old, stamp=stamp: old.replace(stamp, "safe"))
        expected = f"contents: {name} lacks the stamp, or belongs to another release.json"
        assert problems(directory) == [expected]


NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False, min_value=-1e307, max_value=1e307),
    st.floats(1e-12, 1e12),
)


@given(NUMBERS, st.integers(0, 20), st.sampled_from("0123456789.e+- "))
def test_a_number_has_the_digits_that_python_writes(value, place, character):
    text = f"{value:.9g}"
    assert _NUMBERS.fullmatch(f"{text}\t0\t{text}")
    changed = text[:place] + character + text[place + 1 :]
    try:
        as_written = f"{float(changed):.9g}" == changed and abs(float(changed)) < 1e308
    except ValueError:
        as_written = False
    if abs(value) > 1e-290:
        assert bool(_NUMBERS.fullmatch(changed)) == as_written
