"""``primo-scale``: a group of commands, which are imported when one is called."""

from __future__ import annotations

import sys

import click

from primo_scale.cli.command_line import ContractGroup

COMMANDS = {
    "release": "Publish private weights of every phenotype from genotypes and phenotypes.",
    "plan": "Check a release, and forecast its accuracy, time, memory and disk.",
    "ingest": "Pack genotype files of any format into a store.",
    "accumulate": "Sum exact statistics of a cohort, on this machine or a Dask cluster.",
    "finalize": "Add noise once, solve every phenotype, and publish the weights.",
    "verify": "Check a release and recompute its guarantee.",
    "evaluate": "Measure the accuracy of scores in people who consented, or in public data.",
    "ledger": "Show, verify and set the privacy budgets of cohorts.",
    "status": "Show how far a run is.",
    "party": "Publish and use columns of several parties who know the same people.",
    "cluster": "Prepare a cluster: certificates, profiles, genotypes in an object store.",
    "key": "Make keys for encryption at rest.",
    "simulate": "Simulate a cohort of mosaics of a public panel.",
    "audit": "Bound the epsilon of every mechanism from below.",
}
"""Summaries of the commands of `primo_scale.cli.commands`."""


class _LazyCommands(ContractGroup):
    """Group that imports its commands when one is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, or None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        from primo_scale.cli import commands

        command: click.Command = getattr(commands, cmd_name)
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
