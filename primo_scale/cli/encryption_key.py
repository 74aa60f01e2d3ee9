"""``primo-scale encryption-key FILE``: make a key for encryption at rest."""

from __future__ import annotations

from pathlib import Path

import click

from primo_scale.cli.command_line import ContractCommand
from primo_scale.cli.option_types import FILE_PATH


@click.command(cls=ContractCommand)
@click.argument("file", type=FILE_PATH)
def main(file: Path) -> None:
    """Write a new random key to FILE, for --encryption-key.

    Keep it apart from the work directory. Without it, what it encrypted is lost: sum again.
    """
    from primo_scale.storage.encryption import make_key_file

    click.echo(f"{file}: key {make_key_file(file).identifier}")
