"""``primo-scale show-cluster FILE.toml``: print what a cluster profile submits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from primo_scale.cli.command_line import ContractCommand
from primo_scale.cli.option_types import FILE_PATH

if TYPE_CHECKING:
    from primo_scale.cluster.profile import JobQueueProfile, Profile


@click.command(cls=ContractCommand)
@click.argument("file", type=FILE_PATH, metavar="FILE.toml")
def main(file: Path) -> None:
    """Print the job script or Kubernetes manifest of a profile; start nothing.

    Certificates on this machine are checked as before a run.
    SCHEDULER, PORT, NAME and WORK_DIR stand for what only a run knows.
    """
    from primo_scale.cluster.kubernetes import manifest
    from primo_scale.cluster.profile import JobQueueProfile, KubernetesProfile, read_profile

    profile = read_profile(file)
    _check_certificates(profile)
    if isinstance(profile, JobQueueProfile):
        click.echo(_script(profile), nl=False)
    elif isinstance(profile, KubernetesProfile):
        click.echo(json.dumps(manifest(profile), indent=2))
    else:
        click.echo(profile)


def _check_certificates(profile: Profile) -> None:
    """Refuse a profile with certificates that a run refuses, if they are on this machine."""
    from primo_scale.cluster.certificates import read_certificates, read_mounted_certificates
    from primo_scale.cluster.profile import KubernetesProfile

    tls = getattr(profile, "tls", None)
    if isinstance(tls, str) and Path(tls).is_dir():
        mounted = isinstance(profile, KubernetesProfile)
        (read_mounted_certificates if mounted else read_certificates)(Path(tls))


def _script(profile: JobQueueProfile) -> str:
    from primo_scale.cluster.job_queue import job_script

    scratch = Path("WORK_DIR/scratch")
    made = scratch / "tls" if profile.tls else None
    certificates = Path(profile.tls) if isinstance(profile.tls, str) else made
    logs = str(profile.jobs.logs or scratch / "logs")
    return job_script(profile, certificates, logs)
