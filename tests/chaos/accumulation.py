"""Program that accumulates a cohort again, in tasks so small that many kills fit into seconds.

``python accumulation.py COMMAND_WORK_DIR NEW_WORK_DIR``
"""

import sys
from functools import partial
from pathlib import Path

import click

from primo_scale.cli.command_line import ContractCommand

CUT = {"row_group": 512, "stripe": 512, "rows_per_read": 512, "tile": 50}


@click.command(cls=ContractCommand)
@click.argument("inputs", type=click.Path(path_type=Path))
@click.argument("work", type=click.Path(path_type=Path))
def main(inputs: Path, work: Path) -> None:
    from support.partials import partials_of_design

    from primo_scale.accumulation.executors import run_on_dask
    from primo_scale.accumulation.statistics import accumulate
    from primo_scale.cluster.job_queues import LocalProfile
    from primo_scale.cluster.workers import dask_client
    from primo_scale.storage.files import exclusive_lock, make_private_directory

    make_private_directory(work)
    with exclusive_lock(work / "lock"):
        partials = partials_of_design(work / "partials.zarr", inputs, **CUT)
        with dask_client(LocalProfile(2), work / "scratch") as client:
            executor = partial(run_on_dask, client)
            raw = accumulate(executor, partials, work / "statistics.zarr", lambda *_: None)
    print(f"statistics sha256: {raw.sha256}")


if __name__ == "__main__":
    sys.path[:0] = ["", str(Path(__file__).parents[1])]
    main()
