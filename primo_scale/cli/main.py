"""``primo-scale``: the group of all commands."""

from __future__ import annotations

import sys

import click

from primo_scale.cli import command_line, commands
from primo_scale.interruption import note_signals_until_exit


@click.group(cls=command_line.ContractGroup)
@click.version_option(package_name="primo-scale")
def main() -> None:
    """Publish polygenic-score weights with a bound on what they reveal of a person.

    Each command has its own --help.
    """


for _command in (
    *(commands.release, commands.plan, commands.ingest, commands.accumulate, commands.finalize),
    *(commands.verify, commands.evaluate, commands.ledger, commands.status, commands.party),
    *(commands.cluster, commands.key, commands.simulate, commands.audit),
):
    main.add_command(_command)


def run() -> None:
    """Run the installed command, which handles signals from its start."""
    note_signals_until_exit()
    sys.exit(main())
