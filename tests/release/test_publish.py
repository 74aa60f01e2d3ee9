"""Publishing: all or nothing, readable by all, and nothing in it that could hurt a reader."""

from __future__ import annotations

import dataclasses
import errno
import stat
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from release_examples import OPTIONS, example_statement, example_weights, publish_example

from primo_scale.errors import InputError, ResourceError
from primo_scale.release import publish
from primo_scale.release.publish import publish_release
from primo_scale.release.verify import verify_release

STEPS = ("write_weights", "write_centre_afreq", "write_pgs_files", "render_report", "_file_entries",
         "check_schema", "verify_release", "_open_to_readers")  # fmt: skip


def test_the_directory_is_that_of_the_contract(pristine):
    for directory in pristine.values():
        names = {path.relative_to(directory).as_posix() for path in directory.rglob("*")}
        assert names == {
            "weights.tsv.gz", "centre.afreq", "pgs", "pgs/height.txt.gz", "pgs/LDL.txt.gz",
            "release.json", "report.html", "release.log",
        }  # fmt: skip


def test_anybody_may_read_and_nobody_else_write(pristine):
    directory = pristine[True]
    for path in (directory, *directory.rglob("*")):
        expected = 0o755 if path.is_dir() else 0o644
        assert stat.S_IMODE(path.stat().st_mode) == expected


def test_publishing_twice_gives_the_same_bytes(pristine, tmp_path):
    again = publish_example(tmp_path / "again")
    for path in pristine[True].rglob("*"):
        if path.is_file():
            assert (again / path.relative_to(pristine[True])).read_bytes() == path.read_bytes()


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(InputError, match="exists already"):
        publish_example(tmp_path / "out")


@pytest.mark.parametrize("step", STEPS)
def test_a_full_disk_at_any_step_leaves_nothing(step, tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(publish, step, fail)
    with pytest.raises(ResourceError, match="disk is full"):
        publish_example(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("step", STEPS)
def test_an_interruption_at_any_step_leaves_nothing(step, tmp_path, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(publish, step, interrupt)
    with pytest.raises(KeyboardInterrupt):
        publish_example(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_guarantee_that_does_not_follow_from_the_noise_is_not_published(tmp_path):
    weights = example_weights()
    statement = example_statement(weights)
    assert statement.guarantee is not None
    boast = dataclasses.replace(statement.guarantee, epsilon=1.0)
    with pytest.raises(InputError, match="own verification: epsilon"):
        publish_release(
            tmp_path / "out", weights, dataclasses.replace(statement, guarantee=boast), OPTIONS
        )
    assert list(tmp_path.iterdir()) == []


def test_a_statement_about_other_weights_is_not_published(tmp_path):
    statement = example_statement(example_weights(phenotypes=("height", "HDL")))
    with pytest.raises(InputError, match="own verification: contents"):
        publish_release(tmp_path / "out", example_weights(), statement, OPTIONS)


def test_weights_that_are_not_finite_are_not_published(tmp_path):
    weights = example_weights()
    weights.per_allele[3, 1] = np.nan
    with pytest.raises(InputError, match="not finite"):
        publish_release(tmp_path / "out", weights, example_statement(weights), OPTIONS)
    assert list(tmp_path.iterdir()) == []


class Page(HTMLParser):
    """Elements and attributes of a page, and its text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_data(self, data):
        self.text += data


HOSTILE = ("<script>alert(1)</script>", "\"><img/src=x/onerror='alert(1)'>", "{{7*7}}", "&lt;b&gt;")


def test_hostile_names_are_text_in_the_report(tmp_path):
    weights = example_weights(phenotypes=HOSTILE, covariates=("</style><svg/onload=alert(2)>",))
    options = {"cohort": "<iframe src=//example.org>"}
    directory = publish_release(tmp_path / "out", weights, example_statement(weights), options)
    page = Page(directory / "report.html")
    for name in (*HOSTILE, *weights.covariates, options["cohort"]):
        assert name in page.text
    assert not page.tags & {"script", "img", "svg", "iframe", "link", "b"}
    assert page.attributes <= {"lang", "charset", "name", "content", "class"}
    assert all(finding.ok for finding in verify_release(directory))
    assert sorted(path.parent for path in (directory / "pgs").iterdir()) == [directory / "pgs"] * 4


def test_the_report_is_self_contained(pristine):
    for directory in pristine.values():
        page = Page(directory / "report.html")
        assert not page.tags & {"script", "link", "img", "iframe"}
        assert "url(" not in (directory / "report.html").read_text()


def test_the_report_says_what_a_privacy_officer_asks(pristine):
    text = " ".join(Page(pristine[True] / "report.html").text.split())
    for phrase in (
        "any one person's whole row",
        "factor of at most eε = 148",
        "nothing is published without noise",
        "the statistic cross",
        "Effective sample size: 123.4 of 1000 people",
        "Spent before this release",
        "Side channels",
        "plink2 --bfile TARGET",
        "the operator as public",
    ):
        assert phrase in text
    assert "NOT PRIVATE" not in text


def test_a_release_without_noise_says_so_before_all_else(pristine):
    text = Page(pristine[False] / "report.html").text
    assert "NOT PRIVATE: no noise protects the people" in text
    assert "Do not publish" in text or "do not publish" in text
    log = (pristine[False] / "release.log").read_text().splitlines()
    assert log[1].startswith("NOT PRIVATE")


def test_the_log_is_public(pristine, tmp_path):
    log = (pristine[True] / "release.log").read_text()
    assert "option --epsilon 5" in log
    assert "/" not in log.replace("(5, 1e-07)", "")
    assert not any(f"{hour:02}:" in log for hour in range(24))
