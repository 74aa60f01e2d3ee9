"""Groups of options under the headings of --help."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from primo_scale.cli.command_line import HEADINGS

Command = Callable[..., Any]
Decorator = Callable[[Command], Command]

GENOTYPES, MODEL = "Genotypes", "Model and method"
PRIVACY, FILES = "Privacy and budget", "Results and intermediate files"
"""Headings of --help."""


def under(heading: str, *options: Decorator) -> Decorator:
    """Return a decorator that adds all `options`, listed in --help under a heading."""

    def add(command: Command) -> Command:
        before = len(vars(command).get("__click_params__", ()))
        command = together(*options)(command)
        for parameter in vars(command)["__click_params__"][before:]:
            HEADINGS[parameter] = heading
        return command

    return add


def together(*options: Decorator) -> Decorator:
    """Return a decorator that adds all `options`, listed in --help in the order given."""
    return lambda command: reduce(lambda inner, add: add(inner), reversed(options), command)
