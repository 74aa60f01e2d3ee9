"""``--help``: every option under one heading, and examples that the command itself reads."""

import re
import shlex

import click
import pytest
from support.small_cohort import command

from primo_scale.cli.commands import accumulate as accumulate
from primo_scale.cli.commands import finalize as finalize
from primo_scale.cli.commands import ingest as ingest
from primo_scale.cli.commands import ledger as ledger
from primo_scale.cli.commands import release as gwas_release

HEADINGS = [
    "Genotypes",
    "Phenotypes and covariates",
    "Privacy and budget",
    "Results and intermediate files",
    "Model and method",
    "Where and how to compute",
    "Other",
]


def sections(main: click.Command) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in command(main, "--help").stdout.splitlines():
        if heading := re.fullmatch(r"([A-Z][\w ]+):", line):
            found[heading[1]] = []
        elif option := re.match(r"  (?:-[a-z], )?--([a-z-]+)", line):
            found[list(found)[-1]].append(option[1])
    return {heading: options for heading, options in found.items() if options}


@pytest.mark.parametrize("main", [gwas_release, accumulate, finalize, ingest])
def test_every_option_is_listed_once_under_a_heading(main: click.Command) -> None:
    listed = sections(main)
    assert set(listed) <= set(HEADINGS)
    names = [name for options in listed.values() for name in options]
    context = click.Context(main)
    shown = main.get_params(context)
    wanted = [parameter.opts[-1].removeprefix("--") for parameter in shown]
    assert sorted(names) == sorted(wanted)
    assert next(reversed(listed)) == "Other" and "help" in listed["Other"]


def test_the_examples_are_read_by_the_command() -> None:
    text = command(gwas_release, "--help").stdout
    examples = text[text.index("Examples:") :].replace("\\\n", " ")
    commands = re.findall(r"primo-scale release (.*)", examples)
    assert len(commands) == 2
    for words in map(shlex.split, commands):
        options = gwas_release.make_context("gwas_release", words).params
        assert options["non_private"] == (options["epsilon"] is None)
