"""Files that were changed by somebody who makes every digest and the signature fit."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from release_examples import PUBLIC_KEY, SIGNER, forge, read_document, restate
from release_mutations import ATTACKER

from primo_scale import __version__
from primo_scale.genotypes.coding import reference_coding
from primo_scale.publication.centres import possible_frequencies
from primo_scale.publication.document import serialise
from primo_scale.publication.signature import Signer
from primo_scale.publication.verify import verify_release
from primo_scale.publication.weights import centre_frequency


def problems(directory: Path) -> list[str]:
    findings = verify_release(directory)
    return [f"{finding.check}: {finding.detail}" for finding in findings if not finding.ok]


def rewrite(directory: Path, name: str, change: Callable[[str], str]) -> None:
    """Change one file, and sign the release again."""
    path = directory / name
    packed = name.endswith(".gz")
    old = (gzip.decompress(path.read_bytes()) if packed else path.read_bytes()).decode()
    new = change(old)
    assert new != old
    path.write_bytes(gzip.compress(new.encode()) if packed else new.encode())
    forge(directory, read_document(directory))


def cell(row: int, column: int, text: str) -> Callable[[str], str]:
    """Replace one cell of a table, both counted from 0."""

    def change(table: str) -> str:
        lines = table.split("\n")
        fields = lines[row].split("\t")
        fields[column] = text
        lines[row] = "\t".join(fields)
        return "\n".join(lines)

    return change


def test_an_honest_release_signed_again_verifies(release, open_release):
    for directory in (release, open_release):
        forge(directory, read_document(directory))
        assert problems(directory) == []


# -------------------------------------------------------------------- weights and scoring files


@pytest.mark.parametrize("name", ["pgs/height.txt.gz", "pgs/LDL.txt.gz"])
@pytest.mark.parametrize(
    "column, text", [(5, "0.25"), (0, "rs99"), (1, "21"), (2, "1"), (3, "C"), (4, "C")]
)
def test_scoring_files_must_have_the_weights_of_the_table(name, column, text, release):
    rewrite(release, name, cell(-3, column, text))
    (problem,) = problems(release)
    assert problem.startswith(f"contents: {name} has another")


def test_the_least_change_of_a_weight_is_found(release):
    """In the last of nine digits."""
    table = gzip.decompress((release / "weights.tsv.gz").read_bytes()).decode().split("\n")
    weight = table[2].split("\t")[6]
    last = "1" if weight[-1] != "1" else "2"
    rewrite(release, "weights.tsv.gz", cell(2, 6, weight[:-1] + last))
    (problem,) = problems(release)
    assert problem.startswith("contents: pgs/height.txt.gz has another")


@pytest.mark.parametrize("line", ["#n_samples=4711\n", "##4711\n", "#genome_build=NR\n"])
def test_more_lines_in_the_header_of_a_scoring_file_are_found(line, release):
    place = "#weight_type"
    rewrite(release, "pgs/LDL.txt.gz", lambda text: text.replace(place, line + place))
    (problem,) = problems(release)
    assert "pgs/LDL.txt.gz" in problem


def test_scoring_files_that_change_places_are_found(release):
    one, other = release / "pgs/height.txt.gz", release / "pgs/LDL.txt.gz"
    contents = one.read_bytes(), other.read_bytes()
    one.write_bytes(contents[1])
    other.write_bytes(contents[0])
    forge(release, read_document(release))
    (problem,) = problems(release)
    assert "height" in problem and "LDL" in problem


def test_a_scoring_file_of_another_name_is_found(release):
    (release / "pgs/LDL.txt.gz").rename(release / "pgs/n4711.txt.gz")
    document = read_document(release)
    for entry in document["files"]:
        entry["name"] = entry["name"].replace("LDL", "n4711")
    forge(release, document)
    (problem,) = problems(release)
    assert "does not have one file per phenotype, named after it" in problem


@pytest.mark.parametrize("text", ["0.10", "1e0", "+1", " 1", "1_0", "0.12345678912", "inf"])
def test_weights_in_another_form_are_found(text, release):
    rewrite(release, "weights.tsv.gz", cell(3, 7, text))
    (problem,) = problems(release)
    assert "line 4 has a weight that is not finite or has another format" in problem


@pytest.mark.parametrize(
    "row, column, text, what",
    [
        (
            0,
            5,
            "epsilon=4,delta=1e-07,unit=full,adjacency=replace-one",
            "has a header that differs",
        ),
        (0, 5, "NOT_PRIVATE", "has a header that differs"),
        (3, 5, "4711", "line 4 has '4711' in the column of the stamp"),
        (3, 3, "21", "has other chromosomes than the member scoring"),
    ],
)
def test_stamp_and_chromosomes_of_the_table_are_those_stated(row, column, text, what, release):
    rewrite(release, "weights.tsv.gz", cell(row, column, text))
    problem = problems(release)[0]
    assert problem.startswith(f"contents: weights.tsv.gz {what}")


@pytest.mark.parametrize(
    "change",
    [
        cell(0, 0, "##(4, 1e-07)-differentially private"),
        cell(1, 1, "n4711"),
        cell(2, 0, "AGE"),
        cell(3, 0, "n4711"),
        cell(2, 1, "0.10"),
        cell(3, 2, "nan"),
        cell(3, 2, "1\t4711"),
        lambda text: text + "SEX\t1\t1\n",
        lambda text: text[: text.rindex("AGE")],
        lambda text: text[:-1],
        lambda text: text + "\n",
    ],
)
def test_another_table_of_covariates_is_found(change, release):
    rewrite(release, "covariates.tsv", change)
    (problem,) = problems(release)
    assert problem.startswith("contents: covariates.tsv")


@pytest.mark.parametrize(
    "scoring",
    [
        {"chromosomes": ["22", "X"], "males_on_x": "0/2", "xchr_model": 2},
        {"chromosomes": ["22"], "males_on_x": "0/2", "xchr_model": 2},
        {"chromosomes": ["21"], "males_on_x": None, "xchr_model": None},
    ],
)
def test_scoring_must_be_what_the_variants_make_it(scoring, release):
    document = read_document(release)
    document["scoring"] = scoring
    restate(release, document)
    (problem,) = problems(release)
    assert problem.startswith("contents: weights.tsv.gz has other chromosomes")


# ------------------------------------------------------------------------------------- centres


@pytest.mark.parametrize(
    "column, text, what",
    [
        (4, "0.4711", "impossible in any coding"),
        (4, "0.50", "impossible in any coding"),
        (5, "2000", "with 2 as OBS_CT"),
        (5, "1", "with 2 as OBS_CT"),
        (1, "rs99", "is not the row of rs3"),
        (0, "21", "is not the row of rs3"),
        (2, "C", "is not the row of rs3"),
        (3, "C", "is not the row of rs3"),
    ],
)
def test_centres_must_be_what_the_writer_writes(column, text, what, release):
    rewrite(release, "centre.afreq", cell(5, column, text))
    (problem,) = problems(release)
    assert problem.startswith("contents: centre.afreq line 6")
    assert what in problem


@pytest.mark.parametrize("change", [
    lambda text: text + "22\trs7\tG\tA\t0.5\t2\n",
    lambda text: text[: text.rindex("22\t")],
    lambda text: text.replace("#CHROM", "##n = 4711\n#CHROM"),
])  # fmt: skip
def test_centres_with_more_or_fewer_lines_are_found(change, release):
    rewrite(release, "centre.afreq", change)
    (problem,) = problems(release)
    assert problem.startswith("contents: centre.afreq")


def with_frequencies(directory: Path, frequencies: list[str]) -> None:
    """A release that is coded by a panel, and has these centres."""
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
    """What the coding by a panel's frequencies makes of them, as centre.afreq has it."""
    matched = SimpleNamespace(a1_frequency=frequencies, path=Path("panel.afreq"), sha256="0" * 64)
    return [centre_frequency(dosage) for dosage in reference_coding(matched).centre_dosage]


def test_a_panels_frequencies_pass_and_the_cohorts_do_not(release):
    rng = np.random.default_rng(3)
    with_frequencies(release, coded(rng.uniform(0, 1, 7)))
    assert problems(release) == []


def test_frequencies_counted_in_a_cohort_are_found(release):
    """Of 4,711 people: the release would say how many copies of an allele they have."""
    copies = np.random.default_rng(3).integers(0, 9422, 7)
    with_frequencies(release, [f"{count / 9422:.9g}" for count in copies])
    (problem,) = problems(release)
    assert "impossible in any coding" in problem


def test_a_coding_must_have_its_unit(release):
    document = read_document(release)
    document["public_inputs"]["genotype_unit"] = 16
    restate(release, document)
    (problem,) = problems(release)
    assert problem == "sizes: genotype_unit 16 contradicts reference_frequencies"


@given(st.lists(st.floats(0, 1) | st.just(float("nan")), min_size=1, max_size=50))
def test_every_frequency_of_a_panel_is_possible(frequencies):
    assert set(coded(np.array(frequencies))) <= possible_frequencies(informed=True)


def test_all_frequencies_of_panels_are_possible_and_few_others():
    possible = possible_frequencies(informed=True)
    implied = set(coded(np.linspace(0, 1, 100_001)))
    assert implied <= possible
    assert len(possible) < 2 * len(implied)
    assert all(Fraction(text).limit_denominator(254).denominator <= 254 for text in possible)
    assert possible_frequencies(informed=False) == {"0.5"}


# ------------------------------------------------------------------------------ report and log


OTHERWISE = f"differs from what version {__version__} renders from release.json"


@pytest.mark.parametrize("name", ["report.html", "release.log", "README.txt"])
@pytest.mark.parametrize("text", ["n_samples_exact: 4711", " ", "\n", "<!-- 4711 -->"])
def test_text_that_follows_from_nothing_is_found(name, text, release):
    rewrite(release, name, lambda content: content + text)
    (problem,) = problems(release)
    assert problem == f"contents: {name} {OTHERWISE}"


@pytest.mark.parametrize(
    "old, new",
    [("0.9000", "0.9999"), ("148", "1.05"), ("biobank", "Biobank"), ("</p>", "</p >")],
)
def test_another_report_is_found(old, new, release):
    rewrite(release, "report.html", lambda content: content.replace(old, new, 1))
    assert problems(release) == [f"contents: report.html {OTHERWISE}"]


def test_a_log_that_repeats_a_line_or_reorders_it_is_found(release):
    text = (release / "release.log").read_text()
    lines = text.splitlines(keepends=True)
    option = next(line for line in lines if line.startswith("option --"))
    for other in ([*lines, option], [*lines[:2], option, *lines[2:]], lines[::-1], lines[:-1]):
        rewrite(release, "release.log", lambda _, other=other: "".join(other))
        assert any("release.log differs from what" in problem for problem in problems(release))
        (release / "release.log").write_text("".join(lines))


def restate_options(directory: Path, *lines: str) -> None:
    """Log and report with other options, which agree with each other."""
    log = directory / "release.log"
    kept = [line for line in log.read_text().splitlines() if not line.startswith("option --")]
    options = [f"option --{line}" for line in lines]
    log.write_text("\n".join([*kept[:2], *options, *kept[2:], ""]))
    restate(directory, read_document(directory))


@pytest.mark.parametrize(
    "option",
    ["n-samples-exact 4711", "epsilon 1", "delta 1e-9", "privacy label", "adjacency add-remove",
     "method ssp", "shrinkage sure", "ridge 4711 people", "genome-build n4711", "nominal-n 4711",
     "subsample 4711", "non-private yes", "ld-blocks n4711", "ridge nan", "cohort biobank"],
)  # fmt: skip
def test_options_that_the_statement_does_not_have_are_found(option, release):
    restate_options(release, option)
    (problem,) = problems(release)
    assert problem.startswith("contents: release.log has ")


@pytest.mark.parametrize(
    "options",
    [[], ["epsilon 5.0", "delta 1e-07"], ["method auto", "shrinkage auto", "ridge auto"],
     ["method reuse-cov-gauss", "shrinkage ridge", "ridge 0.5"], ["ld-blocks window:4"],
     ["genome-build GRCh37", "privacy full", "adjacency replace-one"]],
)  # fmt: skip
def test_options_as_stated_pass(options, release):
    restate_options(release, *options)
    assert problems(release) == []


# ---------------------------------------------------------------- releases of another version


def of_another_version(directory: Path, signer: Signer = SIGNER) -> None:
    """State another version and sign again; the texts still name the present version."""
    document = read_document(directory)
    document["software"]["version"] = "0.0.9"
    forge(directory, document, signer)


def test_texts_of_another_version_are_noted_under_the_custodians_key(release):
    of_another_version(release)
    findings = verify_release(release, public_key=PUBLIC_KEY)
    assert all(finding.ok for finding in findings)
    (note,) = [finding for finding in findings if finding.note]
    assert note.detail == (
        f"of version 0.0.9, not compared with those of version {__version__}; "
        "the signature covers them"
    )


def test_texts_of_another_version_that_do_not_differ_need_no_note(release):
    document = read_document(release)
    document["software"]["version"] = "0.0.9"
    restate(release, document)
    for key in (None, PUBLIC_KEY):
        findings = verify_release(release, public_key=key)
        assert all(finding.ok and not finding.note for finding in findings)


def test_claiming_another_version_frees_nobody_from_the_comparison_of_texts(release, open_release):
    """Without the custodian's signature whoever names a version could write anything."""
    for directory in (release, open_release):
        of_another_version(directory, ATTACKER)
        (problem,) = [f for f in verify_release(directory) if not f.ok]
        assert problem.check == "contents"
        assert f"README.txt {OTHERWISE}; release.log {OTHERWISE}" in problem.detail
        assert problem.detail.endswith(
            "(give the custodian's public key, or verify with version 0.0.9)"
        )
    found = [f.check for f in verify_release(release, public_key=PUBLIC_KEY) if not f.ok]
    assert found == ["signature", "contents"]


def test_under_the_custodians_signature_nobody_can_change_version_or_texts(release):
    document = read_document(release)
    document["software"]["version"] = "0.0.9"
    (release / "release.json").write_bytes(serialise(document))
    found = [f.check for f in verify_release(release, public_key=PUBLIC_KEY) if not f.ok]
    assert found == ["signature", "contents"]
    of_another_version(release)
    (release / "README.txt").write_text("run this")
    found = [f.check for f in verify_release(release, public_key=PUBLIC_KEY) if not f.ok]
    assert found == ["files"]


def test_weights_of_another_version_are_checked_as_ever(release):
    of_another_version(release)
    rewrite(release, "weights.tsv.gz", cell(3, 7, "+1"))
    (problem,) = [f for f in verify_release(release, public_key=PUBLIC_KEY) if not f.ok]
    assert problem.detail.startswith("weights.tsv.gz line 4 has a weight")
