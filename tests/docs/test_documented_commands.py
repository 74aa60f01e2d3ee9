"""Commands and programs of the documentation: they run, or have only options that exist."""

import re
from pathlib import Path

import click
import pytest
from support.documented_code import ROOT, blocks, run_blocks
from test_links import PAGES

from primo_scale.cli.main import main

RUNNABLE = sorted(
    page
    for page in (path.relative_to(ROOT).as_posix() for path in PAGES)
    if page.startswith("docs/") and blocks(page, "sh", "python")
    # tests/website/test_made_files.py and tests/pandas_plink run the blocks of these
    if page not in ("docs/tutorial.md", "docs/inputs.md")
)
_COMMAND = re.compile(r"(?:(?:\S*/)?primo-scale|python -m pipelines\.)\s*([a-z_-]+)(.*)")
_FENCED = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROGRAM = re.compile(r"^(?:primo-scale|plink|python|make|pip|source) ?", re.MULTILINE)


@pytest.mark.parametrize("page", [page for page in PAGES if "docs" in page.parts], ids=str)
def test_every_block_runs_or_says_why_not(page):
    """The label `text` is for output and drawings, `bash` for commands that do not run."""
    for language, text in _FENCED.findall(page.read_text(encoding="utf-8")):
        assert language in ("sh", "python", "bash", "text", "diff"), text
        if language == "bash":
            assert text.startswith("# Not run by the tests: "), text
        assert language != "text" or not _PROGRAM.search(text), text


@pytest.mark.slow
@pytest.mark.parametrize("page", RUNNABLE)
def test_blocks_marked_sh_or_python_run_in_their_order(page, tmp_path):
    run_blocks(page, tmp_path)


def options_of(path: Path) -> list[tuple[str, str]]:
    """Return command and option, for each option of this program in the blocks of a page."""
    page = path.relative_to(ROOT).as_posix()
    found = []
    for _, text in blocks(page, "", "bash", "sh", "text"):
        for line in text.replace("\\\n", " ").splitlines():
            for name, rest in _COMMAND.findall(line):
                words = [word.strip("[]").split("=")[0] for word in rest.split("#")[0].split()]
                found += [(name, word) for word in words if word.startswith("--") and word != "--"]
    return found


def commands_in(command: click.Command) -> list[click.Command]:
    """Return the commands of a group and of the groups in it."""
    inner = command.commands.values() if isinstance(command, click.Group) else ()
    return [*inner, *(each for group in inner for each in commands_in(group))]


def unknown_options(path: Path) -> list[str]:
    unknown = []
    for name, option in options_of(path):
        name = {"gwas-release": "release"}.get(name.replace("_", "-"), name.replace("_", "-"))
        command = main.get_command(click.Context(main), name)
        assert command is not None, f"{path.name} names the command {name}"
        of_groups = commands_in(command)
        known = {
            opt
            for each in (command, *of_groups)
            for parameter in each.get_params(click.Context(each))
            for opt in (*parameter.opts, *parameter.secondary_opts)
        }
        unknown += [] if option in {*known, "--help"} else [f"{name} {option}"]
    return unknown


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_documented_options_exist(page):
    if page.name != "CHANGELOG.md" and "news" not in page.parts:
        assert unknown_options(page) == []
