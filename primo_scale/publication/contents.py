"""Checks of the other files of a release against release.json.

README.txt, report.html and release.log are rendered again from release.json, the report also from
the weights, and compared byte by byte. Files with the weights have a check each
(`publication.weights_files`).
"""

from __future__ import annotations

from pathlib import Path

from primo_scale.publication.bounded_text import bounded_bytes
from primo_scale.publication.check_weights import UNREADABLE
from primo_scale.publication.document import Document, statement_digest
from primo_scale.publication.file_names import LOG_FILE, README_FILE, REPORT_FILE
from primo_scale.publication.pictures import draw_pictures
from primo_scale.publication.readme import render_readme
from primo_scale.publication.release_log import option_problems, options_in, render_log
from primo_scale.publication.report import render_report
from primo_scale.publication.weights_files import Check, weights_files_of
from primo_scale.version import __version__


def contents_problems(directory: Path, document: Document) -> list[str]:
    """Return the contradictions between the files with the weights and release.json."""
    problems: list[str] = []
    files = weights_files_of(document)
    for name, file in sorted(files.items(), key=lambda item: item[1].needs_others):
        if not (file.needs_others and problems):
            problems += _problems(name, file.check, directory, document)
    return problems


def text_problems(directory: Path, document: Document, *, weights_are_good: bool) -> list[str]:
    """Return the differences between the texts and what this version renders from release.json.

    The pictures of the report need files with the weights that `contents_problems` found good.
    """
    checks = {README_FILE: _readme_problems, LOG_FILE: _log_problems}
    if weights_are_good:
        checks[REPORT_FILE] = _report_problems
    return [
        problem
        for name, check in checks.items()
        for problem in _problems(name, check, directory, document)
    ]


def _problems(name: str, check: Check, directory: Path, document: Document) -> list[str]:
    """Return the problems of a file; those of a file in a directory begin with its name already."""
    try:
        problems = check(directory, document)
        return [found if found.startswith(name) else f"{name} {found}" for found in problems]
    except UNREADABLE as error:
        return [f"{name} cannot be read: {error}"]


def _readme_problems(directory: Path, document: Document) -> list[str]:
    return _difference(bounded_bytes(directory / README_FILE), render_readme(document))


def _log_problems(directory: Path, document: Document) -> list[str]:
    content = bounded_bytes(directory / LOG_FILE)
    options = options_in(content.decode())
    again = render_log(document, digest=statement_digest(document), options=options)
    return option_problems(document, options) + _difference(content, again)


def _report_problems(directory: Path, document: Document) -> list[str]:
    """Check the report, which repeats the options of the log and draws the weights."""
    signature = document["signature"]
    again = render_report(
        document,
        digest=statement_digest(document),
        options=options_in(bounded_bytes(directory / LOG_FILE).decode()),
        public_key=None if signature is None else signature["public_key"],
        pictures=draw_pictures(directory, document),
    )
    return _difference(bounded_bytes(directory / REPORT_FILE), again)


def _difference(content: bytes, again: str) -> list[str]:
    same = content == again.encode()
    return [] if same else [f"differs from what version {__version__} renders from release.json"]
