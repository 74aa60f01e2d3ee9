"""Program that accumulates a cohort again, in hundreds of small tasks.

``python accumulation.py COMMAND_WORK_DIR NEW_WORK_DIR`` does what ``pipelines.accumulate`` does
after checking its inputs, with a plan whose tasks are so small that many kills fit into seconds.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from primo_scale.cli.command_line import ContractCommand

CUT = {"row_group": 512, "stripe": 512, "rows_per_read": 512, "tile": 50}


@click.command(cls=ContractCommand)
@click.argument("inputs", type=click.Path(path_type=Path))
@click.argument("work", type=click.Path(path_type=Path))
def main(inputs: Path, work: Path) -> None:
    from primo_scale.accumulation.checkpoint import open_partials
    from primo_scale.accumulation.engine import run_tasks
    from primo_scale.accumulation.partials import Inputs
    from primo_scale.accumulation.plan import default_plan
    from primo_scale.accumulation.summation import accumulate
    from primo_scale.accumulation.tasks import run_task
    from primo_scale.cluster.connect import dask_client
    from primo_scale.cluster.profile import LocalProfile
    from primo_scale.genotypes.store import open_genotype_store
    from primo_scale.outcomes.store import open_outcome_store
    from primo_scale.run.design import load_design
    from primo_scale.storage.files import exclusive_lock, make_private_directory

    design = load_design(inputs / "design.json")
    outcomes = inputs / "outcomes.zarr"
    genotypes = Path(design.genotype_store)
    asked = Inputs(
        genotypes=genotypes,
        outcomes=outcomes,
        clipping_rule=design.clipping_rule,
        subsample=design.subsample,
        digests={
            "genotypes": open_genotype_store(genotypes).identity_digest,
            "outcomes": open_outcome_store(outcomes).content_digest,
        },
    )
    plan = replace(default_plan(design.layout, design.n_samples), **CUT)
    make_private_directory(work)
    with exclusive_lock(work / "lock"):
        codes = design.genotypes.code_table
        partials = open_partials(work / "partials.zarr", plan, asked, codes)
        with dask_client(LocalProfile(2), work / "scratch") as client:
            on_workers = partial(run_tasks, client, run_task)
            raw = accumulate(on_workers, partials, work / "statistics.zarr", lambda *_: None)
    print(f"statistics sha256: {raw.sha256}")


if __name__ == "__main__":
    sys.path.insert(0, "")
    main()
