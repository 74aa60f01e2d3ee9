"""``primo-scale release``: from genotypes and phenotypes to a published release."""

from __future__ import annotations

from typing import Any

import click

from primo_scale.cli.command_line import ContractCommand
from primo_scale.cli.options import dry_run_option, release_request_from, whole_release_options

_EXAMPLES = """
Examples:

\b
A private release of two chromosomes. With --dry-run added, the same command
checks every input, asks the ledger, and prints what the run needs:
  primo-scale release --bfile ukb_chr1,ukb_chr2 \\
      --pheno pheno.tsv --pheno-bounds pheno_bounds.tsv \\
      --covar covar.tsv --covar-bounds covar_bounds.tsv \\
      --ref-freq 1000g_eur.afreq --ld-panel 1000g_eur \\
      --epsilon 3 --delta 1e-11 --out release

\b
A release without noise, to compare with other tools; it protects nobody:
  primo-scale release --bfile cohort --pheno pheno.tsv \\
      --pheno-bounds pheno_bounds.tsv --ld-blocks window:500 \\
      --non-private --out comparison
"""


@click.command(cls=ContractCommand, epilog=_EXAMPLES)
@whole_release_options
@dry_run_option
def main(dry_run: bool, **options: Any) -> None:
    """Publish differentially private polygenic-score weights of every phenotype.

    Runs ingest, accumulate and finalize. After any interruption the same command continues, and it
    publishes no release twice. Before it reads a genotype it checks all other inputs and asks the
    ledger; with --dry-run it does only that.
    """
    from primo_scale.cli.plan import dry_run_of
    from primo_scale.run.operations import release

    request = release_request_from(options)
    if dry_run:
        dry_run_of(request)
        return
    click.echo(f"release: {release(request).directory}")
