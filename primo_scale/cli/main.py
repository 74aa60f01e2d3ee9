"""``primo-scale``: a group of commands, each imported when it is called."""

from __future__ import annotations

import sys
from importlib import import_module

import click

from primo_scale.cli.address_space import LEAST_ADDRESS_SPACE
from primo_scale.cli.command_line import ContractCommand, ContractGroup

COMMANDS = {
    "release": "Publish private weights of every phenotype from genotypes and phenotypes.",
    "plan": "Check a release, and forecast its accuracy, time, memory and disk.",
    "forecast": "Forecast the accuracy of releases from a public panel and numbers alone.",
    "ingest": "Pack genotype files of any format into a store.",
    "accumulate": "Sum exact statistics of a cohort, on this machine or a Dask cluster.",
    "finalize": "Add noise once, solve every phenotype, and publish the weights.",
    "verify": "Check a release and recompute its guarantee.",
    "evaluate": "Measure the accuracy of scores in people who consented, or in public data.",
    "ledger": "Show, verify and set the privacy budgets of cohorts.",
    "status": "Show how far a run is.",
    "party-roster": "Write the keyed list of people whom several parties share.",
    "party-release": "Publish noisy columns of one party, whose people other parties know too.",
    "party-fit": "Fit a linear model to the releases of several parties.",
    "ld-blocks": "Divide a public panel into blocks with the least LD across them.",
    "simulate": "Simulate a cohort of mosaics of a public panel.",
    "audit": "Bound the epsilon of every mechanism from below.",
    "certificates": "Make the certificates of a cluster.",
    "copy-genotypes": "Copy a genotype store to an object store.",
    "encryption-key": "Make a key for encryption at rest.",
    "show-cluster": "Print the job script or manifest of a cluster profile.",
}
"""Summaries of the commands. Each is a module of `primo_scale.cli`, with ``_`` for ``-``."""


class _LazyCommands(ContractGroup):
    """Group that imports the module of a command when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, or None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"primo_scale.cli.{cmd_name.replace('-', '_')}")
        command: click.Command = module.main
        if isinstance(command, ContractCommand):
            command.least_address_space = LEAST_ADDRESS_SPACE.get(cmd_name, 0)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the summaries without importing the commands."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_LazyCommands)
@click.version_option(package_name="primo-scale")
def main() -> None:
    """Publish polygenic-score weights with a bound on what they reveal of a person.

    Each command has its own --help.
    """


def run() -> None:
    """Run the installed command, which handles signals from its start."""
    from primo_scale.interruption import note_signals_until_exit

    note_signals_until_exit()
    sys.exit(main())
