"""The command in report.html: every option of a release is in it or is named here."""

import dataclasses
import html
import math
import subprocess
from typing import Any

import pytest
from support.documents import put
from support.release_examples import example_document, example_statement, example_weights

from primo_scale.cli.commands import release as main
from primo_scale.publication.document import schema_problems
from primo_scale.publication.release_log import render_log
from primo_scale.publication.report import release_command, render_report
from primo_scale.publication.statement import (
    ReferenceFrequencies,
    StatedLdPanel,
    StatedLoadings,
    StatedPopulation,
    StatedScore,
    StatedSlope,
    statement_document,
)

HELD_OUT = {"people": 50, "unit": 1, "constant": 1, "phenotypes": [{"calibration": 0.9}]}
# Files and columns of the custodian and filters of them, and what does not shape a release.
NOT_STATED = """
    --genotypes --vcf --bgen --vcz --sample --bgen-order --keep --remove --extract --exclude
    --extract-by-prior --top --chr --ref-maf --pheno-name --covar-name --maf --max-maf --mac
    --max-mac --geno --hwe --mind --indep-pairwise --accept-noise --ledger --work-dir
    --purge-intermediates --encryption-key --scheduler --tls --no-tls --cluster --workers
    --memory-limit --object-store --kernel --performance-report --log-format --dry-run --debug
    --ld-components
"""


def words_of(document: dict[str, Any]) -> list[str]:
    """Return the words of the command, as a shell takes them."""
    script = f"set -- {release_command(document)}; printf '%s\\n' \"$@\""
    found = subprocess.run(["sh", "-c", script], check=True, capture_output=True, text=True)
    return found.stdout.splitlines()[2:]


def parsed(document: dict[str, Any]) -> dict[str, Any]:
    """Return the options that the program reads from the command."""
    return main.make_context("release", words_of(document)).params


def stated(*, private: bool = True, **changes: Any) -> dict[str, Any]:
    """Return the document of a release with these public choices."""
    statement = example_statement(example_weights(), private=private, **changes)
    return statement_document(statement)


def with_scores(document: dict[str, Any], *scores: tuple[str, tuple[str, ...]]) -> dict[str, Any]:
    """Return a document with public scores of these files and phenotypes."""
    sources = (
        StatedScore(file, "0" * 64, None, 9, 7, tuple(StatedSlope(n, 0.5, 0.1) for n in names))
        for file, names in scores
    )
    return put(document, "estimation.public_scores", list(map(dataclasses.asdict, sources)))


@pytest.mark.parametrize("name", ["yes", "true", "a b.tsv", 'it\'s "a" $HOME', "a (SHA-256 b)"])
def test_no_name_of_a_public_file_is_taken_for_something_else(name):
    document = stated(
        reference=ReferenceFrequencies(name, "0" * 64),
        ld_blocks=f"{name} (SHA-256 {'0' * 64})",
        loadings=StatedLoadings(name, "0" * 64, 7, 1),
    )
    document["public_inputs"]["ld_panel"] = dataclasses.asdict(StatedLdPanel(name, "0" * 64, 9))
    found = parsed(with_scores(document, (name, ("height", "LDL"))))
    assert found["prior_weights"] == (name,)
    assert found["ld_panel"] == (name,)
    paths = ("ref_freq", "ld_blocks", "pc_loadings")
    assert {str(found[path]) for path in paths} == {name}
    assert not found["ld_components"] and not found["non_private"]


@pytest.mark.parametrize(
    ("scores", "values"),
    [
        ([("a", ("LDL",)), ("b", ("height", "LDL"))], ("LDL=a", "b")),
        ([("a", ("height",)), ("a", ("LDL",)), ("b", ("LDL",))], ("a", "LDL=b")),  # a release
    ],
)
def test_every_public_score_is_an_option_of_its_own(scores, values):
    assert parsed(with_scores(stated(), *scores))["prior_weights"] == values


def test_a_bound_on_rows_is_stated_as_the_option_that_gives_it():
    for bound in (3, 3_000_017, 2**40 + 1):
        found = parsed(stated(row_norm=bound))
        assert math.floor(found["row_norm"] ** 2) == bound


def over_components(rounds: int) -> dict[str, Any]:
    """Return the document of a release over LD components of so many rounds."""
    document = put(example_document(), "cohort.component_sizes", [1, 1])
    second = {"directions": 3, "row_norm_squared": 4, "phenotypes_norm_squared": 5}
    return put(document, "mechanism.second_round", second if rounds == 2 else None)


@pytest.mark.parametrize("rounds", [1, 2])
def test_the_number_of_rounds_over_ld_components_is_stated(rounds):
    assert parsed(over_components(rounds))["rounds"] == rounds


def test_every_option_of_the_command_is_stated_or_listed_here():
    """An option that is new fails here until the command states it, or the list above names it."""
    documents = [
        stated(genetic_factors=5, reference=ReferenceFrequencies("a", "0" * 64),
               loadings=StatedLoadings("a", "0" * 64, 7, 1), ld_blocks="window:4"),
        stated(estimator="known-noise", row_norm=3, dosages=True),
        stated(private=False),
        with_scores(example_document("subsampled"), ("a", ("height", "LDL"))),
        example_document("ada-ssp-add-remove"),
        example_document() | {"hold_out": HELD_OUT, "summary_statistics": True},
        over_components(1),
    ]  # fmt: skip
    panel = dataclasses.asdict(StatedLdPanel("a", "0" * 64, 9))
    documents[0]["public_inputs"]["ld_panel"] = panel
    two = [dataclasses.asdict(StatedPopulation(name, 4, ())) | {"centroid": []} for name in "ab"]
    populations = {"file": "a", "sha256": "0" * 64, "populations": two}
    documents[0]["public_inputs"]["panel_populations"] = populations
    assert schema_problems(example_document() | documents[0]) == []
    shown = {word for each in documents for word in words_of(each) if word.startswith("--")}
    options = [(*parameter.opts, *parameter.secondary_opts) for parameter in main.params]
    others = NOT_STATED.split()
    assert shown.isdisjoint(others)
    assert sorted([*shown, *others]) == sorted(opt for each in options for opt in each)


@pytest.mark.parametrize("private", [True, False])
def test_the_command_names_no_file_of_the_custodian(private):
    document = stated(private=private, reference=ReferenceFrequencies("it's", "0" * 64))
    page = render_report(document | {"scoring": {"xchr_model": None}}, public_key=None, pictures={})
    assert release_command(document) in html.unescape(page)
    words = words_of(document)
    assert ("--non-private" in words) != private
    files = {"--bfile", "--pheno", "--pheno-bounds", "--covar", "--covar-bounds", "--out"}
    assert all(words[words.index(name) + 1].isupper() for name in files)


def test_the_log_states_flags_without_a_value():
    lines = render_log(stated(private=False)).splitlines()
    assert "option --non-private" in lines and "option --ld-blocks window:4" in lines
