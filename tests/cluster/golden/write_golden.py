"""Write the golden job scripts and manifest of the example profiles in ``cluster/``.

    python tests/cluster/golden/write_golden.py

Read the differences before committing them: a job script is what a site runs.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from unittest import mock

import dask
import dask_jobqueue
from click.testing import CliRunner

from primo_scale.cli import show_cluster

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[2] / "cluster"
GOLDEN = {"slurm": "slurm.sh", "pbs": "pbs.sh", "lsf": "lsf.sh", "sge": "sge.sh",
          "kubernetes": "kubernetes.json"}  # fmt: skip


def rendered(kind: str) -> str:
    """What the example of a kind comes to, on any machine and for any user."""
    nobody = {"LSF_ENVDIR": os.devnull, "PBS_ACCOUNT": ""}
    (defaults,) = dask.config.collect_yaml([_defaults()])
    with (
        mock.patch.dict(os.environ, nobody),
        mock.patch.object(sys, "executable", "PYTHON"),
        dask.config.set({"jobqueue": defaults["jobqueue"]}),
    ):
        result = CliRunner().invoke(
            show_cluster.main, [str(EXAMPLES / kind / f"{kind}.toml")], catch_exceptions=False
        )
    assert result.exit_code == 0, result.output
    return result.output


def _defaults() -> str:
    """The file with dask-jobqueue's own settings, whatever this user's say."""
    return str(Path(dask_jobqueue.__file__).with_name("jobqueue.yaml"))


if __name__ == "__main__":
    for kind, name in GOLDEN.items():
        (HERE / name).write_text(rendered(kind))
