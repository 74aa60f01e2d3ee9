"""``primo-scale party-roster``: the people whom several parties share, as keyed hashes."""

from __future__ import annotations

from pathlib import Path

import click

from primo_scale.cli.command_line import ContractCommand
from primo_scale.cli.option_types import file_option


@click.command(cls=ContractCommand)
@click.option(
    "--people",
    required=True,
    metavar="PATH|URL",
    help="Phenotype table or genotype store of this party, for the IIDs.",
)
@file_option(
    "--party-key",
    required=True,
    help="The key that the parties share (primo-scale encryption-key makes one).",
)
@file_option(
    "--shared-with",
    multiple=True,
    help="Roster of another party: only people of all rosters are kept. Repeatable.",
)
@file_option("--out", required=True, help="Roster to write. PRIVATE.")
def main(people: str, party_key: Path, shared_with: tuple[Path, ...], out: Path) -> None:
    """Write the roster of this party's people, or of those whom the other parties have too.

    Each party writes its own roster and gives it to the others. Then each one intersects all of
    them, which gives the same roster everywhere. A roster is for the parties alone.
    """
    from primo_scale.run.party_operations import party_roster

    roster = party_roster(people, party_key, out, others=shared_with)
    click.echo(f"{out}: {len(roster)} people")
