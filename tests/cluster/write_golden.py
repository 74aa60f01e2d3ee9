"""Write the golden job scripts and manifest of the example profiles in ``cluster/``.

    python tests/cluster/write_golden.py

Read the differences before committing them, because sites run these job scripts.
"""

import json
import os
import sys
from pathlib import Path
from unittest import mock

import dask
import dask_jobqueue
import yaml
from click.testing import CliRunner

from primo_scale.cli import show_cluster

FOLDER = Path(__file__).parent / "golden"
EXAMPLES = FOLDER.parents[2] / "cluster"
GOLDEN = {"slurm": "slurm.sh", "pbs": "pbs.sh", "lsf": "lsf.sh", "sge": "sge.sh",
          "kubernetes": "kubernetes.yaml"}  # fmt: skip


def rendered(kind: str) -> str:
    """Return the output for the example of a kind, for any machine and any user's settings.

    A manifest, which is printed as JSON, is returned as YAML.
    """
    nobody = {"LSF_ENVDIR": os.devnull, "PBS_ACCOUNT": ""}
    settings = Path(dask_jobqueue.__file__).with_name("jobqueue.yaml")
    (defaults,) = dask.config.collect_yaml([str(settings)])
    with (
        mock.patch.dict(os.environ, nobody),
        mock.patch.object(sys, "executable", "PYTHON"),
        dask.config.set({"jobqueue": defaults["jobqueue"]}),
    ):
        result = CliRunner().invoke(
            show_cluster.main, [str(EXAMPLES / kind / f"{kind}.toml")], catch_exceptions=False
        )
    assert result.exit_code == 0, result.output
    if kind == "kubernetes":
        return yaml.safe_dump(json.loads(result.output), sort_keys=False)
    return result.output


if __name__ == "__main__":
    for kind, name in GOLDEN.items():
        (FOLDER / name).write_text(rendered(kind))
