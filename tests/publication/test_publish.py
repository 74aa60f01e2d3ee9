"""A release is published whole or not at all, and its report is safe to read."""

import errno
import math
import re
import stat
from decimal import ROUND_CEILING, Context, Decimal
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs
from support.documents import read_document
from support.noise_checks import exact_delta
from support.release_examples import (
    FILES,
    MODES,
    PUBLIC_KEY,
    SIGNER,
    example_statement,
    example_weights,
    publish,
    publish_example,
)

from primo_scale.errors import InputError, ResourceError
from primo_scale.publication import publish as publishing
from primo_scale.publication.open_release import open_release
from primo_scale.publication.publish import is_same_release, publish_release
from primo_scale.publication.texts import render_readme, render_report
from primo_scale.verify.release import release_findings

STEPS = ("write_files", "texts.render_report", "texts.render_readme", "file_entries",
         "signature_of", "release.release_findings", "open_to_readers")  # fmt: skip


def test_the_directory_is_that_of_the_contract(pristine):
    """Anybody may read a private release; only the owner may read weights without noise."""
    for private, directory in pristine.items():
        names = {path.relative_to(directory).as_posix() for path in directory.rglob("*")}
        assert names == {*FILES, "pgs", "release.json"}
        assert stat.S_IMODE(directory.stat().st_mode) == (0o755 if private else 0o700)
        for path in directory.rglob("*") if private else ():
            assert stat.S_IMODE(path.stat().st_mode) == (0o755 if path.is_dir() else 0o644)


def test_publishing_twice_gives_the_same_bytes(pristine, tmp_path):
    again = publish_example(tmp_path / "again")
    with pytest.raises(InputError, match="exists already"):
        publish_example(again)
    for path in pristine[True].rglob("*"):
        if path.is_file():
            assert (again / path.relative_to(pristine[True])).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    ("failure", "reported"),
    [(OSError(errno.ENOSPC, "No space left on device"), ResourceError),
     (KeyboardInterrupt(), KeyboardInterrupt)],
)  # fmt: skip
def test_a_failure_at_any_step_leaves_nothing(step, failure, reported, tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise failure

    monkeypatch.setattr(f"{publishing.__name__}.{step}", fail)
    with pytest.raises(reported, match="disk is full" if reported is ResourceError else None):
        publish_example(tmp_path / "out", summary=True)
    assert list(tmp_path.iterdir()) == []


def test_a_guarantee_that_does_not_follow_from_the_noise_is_not_published(tmp_path):
    weights = example_weights()
    statement = example_statement(weights)
    assert statement.guarantee is not None
    boast = structs.replace(statement.guarantee, epsilon=1.0)
    with pytest.raises(InputError, match="own verification: epsilon"):
        publish(tmp_path / "out", weights, structs.replace(statement, guarantee=boast))
    assert list(tmp_path.iterdir()) == []


def test_a_statement_about_other_weights_is_not_published(tmp_path):
    statement = example_statement(example_weights(phenotypes=("height", "HDL")))
    with pytest.raises(InputError, match="own verification: contents"):
        publish(tmp_path / "out", example_weights(), statement)


class Page(HTMLParser):
    """Elements, names of attributes, links and text of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.text = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)
        self.links += [value for name, value in attrs if name == "href"]

    def handle_data(self, data):
        self.text += data


HOSTILE = ("<script>alert(1)</script>", "\"><img/src=x/onerror='alert(1)'>", "{{7*7}}", "&lt;b&gt;")


@pytest.mark.parametrize("private", [True, False])
def test_the_texts_follow_from_the_document_alone(private, pristine):
    directory = pristine[private]
    document, key = read_document(directory), PUBLIC_KEY if private else None
    assert (directory / "README.txt").read_text() == render_readme(document)
    assert (directory / "report.html").read_text() == render_report(
        document, key, example_weights()
    )


def test_hostile_names_are_text_in_the_report(tmp_path):
    weights = example_weights(phenotypes=HOSTILE, covariates=('"</style><svg/onload=alert(2)>',))
    statement = example_statement(weights, ld_blocks="<iframe src=example.org> .txt")
    directory = publish(tmp_path / "out", weights, statement)
    page = Page(directory / "report.html")
    for name in (*HOSTILE, *weights.covariates, "<iframe src=example.org> .txt"):
        assert name in page.text
    assert not page.tags & {"script", "img", "image", "use", "iframe", "link", "b"}
    assert "url(" not in (directory / "report.html").read_text()
    assert page.attributes <= {
        "lang", "charset", "name", "content", "class", "scope", "role", "aria-label", "tabindex",
        "aria-labelledby", "id", "href", "viewbox", "x", "y", "x1", "x2", "y1", "y2", "width",
        "height", "d", "style", "text-anchor", "transform",
    }  # fmt: skip
    assert page.links and all(link.startswith("#") for link in page.links)
    assert all(finding.ok for finding in release_findings(directory))
    assert sorted(path.parent for path in (directory / "pgs").iterdir()) == [directory / "pgs"] * 4
    release = open_release(directory)
    np.testing.assert_allclose(release.weights[[*HOSTILE]], weights.per_allele, rtol=5e-9)
    assert tuple(release.covariates) == HOSTILE
    assert tuple(release.covariates.index) == ("(intercept)", *weights.covariates)


def text_of(directory: Path) -> str:
    return " ".join(Page(directory / "report.html").text.split())


def test_distinguishing_power_is_that_of_the_gaussian_trade_off(pristine):
    """One shift of mu, tested at 5% and 1%: normal tables give 1.644854 and 2.326348."""
    mu = float(example_statement(example_weights()).guarantee.mu)
    for level, quantile in (("5 %", 1.644854), ("1 %", 2.326348)):
        power = Decimal(50 * math.erfc((quantile - mu) / math.sqrt(2)))
        at_most = Context(prec=3, rounding=ROUND_CEILING).plus(power)
        sentence = f"a false alarm in {level} of cases tells the two cohorts apart in {at_most} %"
        assert sentence in text_of(pristine[True])


def test_the_first_page_states_what_the_guarantee_leaves_out(pristine):
    first_page, _ = text_of(pristine[True]).split("How accurate the weights are")
    for words in read_document(pristine[True])["public_by_assumption"]:
        assert words in first_page
    for row in ("Not protected", "Curator, purpose", "Not in the budget", "Independent audit"):
        assert row in first_page
    assert "a factor of at most 149;" in first_page  # e^5 = 148.41


def test_epsilons_at_other_deltas_are_upper_bounds(pristine):
    """The exact profile is that of mpmath; three digits are rounded up."""
    mu = float(example_statement(example_weights()).guarantee.mu)
    found = re.findall(r"ε = (\S+) at δ = (1e-0[56])", text_of(pristine[True]))
    assert [delta for _, delta in found] == ["1e-05", "1e-06"]
    for epsilon, delta in ((float(each), float(delta)) for each, delta in found):
        assert exact_delta(epsilon, mu) <= delta < exact_delta(0.99 * epsilon, mu)


# ----------------------------------------------------------------------- signed, and recognised


def test_a_private_release_needs_a_signer_and_no_other_has_one(tmp_path):
    weights = example_weights()
    for private, signer in ((True, None), (False, SIGNER)):
        statement = example_statement(weights, private=private)
        with pytest.raises(ValueError, match="signed if and only if it is private"):
            publish_release(tmp_path / "out", weights, statement, signer=signer)
    assert list(tmp_path.iterdir()) == []


def test_a_release_is_recognised_by_what_it_states(pristine):
    statement = example_statement(example_weights())
    assert is_same_release(pristine[True], statement)
    assert not is_same_release(pristine[False], statement)
    assert not is_same_release(pristine[True].parent, statement)
    for mode in MODES:
        other = example_statement(example_weights(), mode=mode)
        assert is_same_release(pristine[True], other) is (mode == "full")


def test_date_balance_versions_and_rounding_do_not_make_another_release(pristine):
    statement = example_statement(example_weights())
    parts = {
        "created": "2027-01-01",
        "ledger": structs.replace(statement.ledger, cohort="renamed"),
        "guarantee": structs.replace(statement.guarantee, versions={"scipy": "9.9"}),
        "estimation": structs.replace(statement.estimation, penalties=(1.5 * (1 + 1e-9),) * 2),
    }
    assert is_same_release(pristine[True], structs.replace(statement, **parts))


def test_other_numbers_or_words_make_another_release(pristine):
    statement = example_statement(example_weights())
    others = [
        {"guarantee": structs.replace(statement.guarantee, epsilon=5.0000001)},
        {"estimation": structs.replace(statement.estimation, penalties=(1.5, 1.51))},
        {"estimation": structs.replace(statement.estimation, penalties=(1.5,))},
        {"accuracy": structs.replace(statement.accuracy, effective_sample_size=122.0)},
        {"public_inputs": structs.replace(statement.public_inputs, genome_build="NR")},
    ]
    for change in others:
        assert not is_same_release(pristine[True], structs.replace(statement, **change))
