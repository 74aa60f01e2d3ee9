"""Workers as pods: a DaskCluster resource for the Dask operator, applied by kubectl.

`KubeCluster` of dask-kubernetes connects only to schedulers without TLS (2026.3 hard-codes
``tcp://``). So does the operator's autoscaler; its alternative is a web page that reveals the
number of tasks. The number of workers is therefore fixed, and pods that do not fit the cluster
wait.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from primo_scale.cluster import dask_settings
from primo_scale.cluster.profile import (
    SCHEDULER_PORT,
    KubernetesProfile,
    Pods,
    seconds,
    worker_memory,
)
from primo_scale.errors import InputError

_RESOURCE = "daskcluster.kubernetes.dask.org"
_PORTS = {"tcp-comm": SCHEDULER_PORT, "http-dashboard": 8787}
_SCRATCH, _CERTIFICATES = "/scratch", "/etc/primo-scale-tls"
_SCHEDULER_ENVIRONMENT = {
    # The health page answers the probe with "ok" and reveals nothing else.
    "DASK_DISTRIBUTED__SCHEDULER__HTTP__ROUTES": '["distributed.http.health"]',
    "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": str(dask_settings.ALLOWED_FAILURES),
}


def manifest(profile: KubernetesProfile) -> dict[str, Any]:
    """Return the DaskCluster resource of a profile, in version v1 of the operator."""
    pods = profile.pods
    selector = {"dask.org/cluster-name": profile.name, "dask.org/component": "scheduler"}
    return {
        "apiVersion": "kubernetes.dask.org/v1",
        "kind": "DaskCluster",
        "metadata": {"name": profile.name, "namespace": profile.namespace},
        "spec": {
            "scheduler": {
                "spec": _pod(profile, _scheduler(profile)),
                "service": {
                    "type": "ClusterIP",
                    "selector": selector,
                    "ports": [
                        {"name": name, "protocol": "TCP", "port": port, "targetPort": name}
                        for name, port in _PORTS.items()
                    ],
                },
            },
            "worker": {"replicas": pods.workers, "spec": _pod(profile, _worker(profile))},
        },
    }


@contextmanager
def applied(profile: KubernetesProfile) -> Iterator[str]:
    """Create the cluster, yield its scheduler's address, and delete it at the end.

    The scheduler may not answer at once. A killed command leaves the cluster in place, and the same
    command finds it again.
    """
    _kubectl(profile, ["apply", "--filename=-"], json.dumps(manifest(profile)))
    try:
        yield profile.address or profile.service_address
    finally:
        _kubectl(profile, ["delete", _RESOURCE, profile.name, "--ignore-not-found", "--wait=false"])


def refuse_missing_kubectl() -> None:
    """Refuse to run where kubectl is not installed."""
    if shutil.which("kubectl") is None:
        raise _no_kubectl()


def _no_kubectl() -> InputError:
    return InputError(
        "kubectl is not installed",
        where="--cluster",
        remedy="Run the command where it is, or add its directory to PATH",
    )


def _scheduler(profile: KubernetesProfile) -> dict[str, Any]:
    health = {"httpGet": {"path": "/health", "port": "http-dashboard"}}
    return {
        **_container(profile, "scheduler", _SCHEDULER_ENVIRONMENT),
        "args": [
            "python", "-m", "distributed.cli.dask_scheduler", "--protocol", profile.scheme,
            "--port", str(SCHEDULER_PORT), "--no-dashboard", *_tls_arguments(profile),
        ],
        "ports": [
            {"name": name, "containerPort": port, "protocol": "TCP"}
            for name, port in _PORTS.items()
        ],
        "readinessProbe": {**health, "initialDelaySeconds": 5, "periodSeconds": 10},
        "livenessProbe": {**health, "initialDelaySeconds": 30, "periodSeconds": 20},
        "resources": {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"memory": "4Gi"}},
    }  # fmt: skip


def _worker(profile: KubernetesProfile) -> dict[str, Any]:
    pods = profile.pods
    options = {
        "--name": "$(DASK_WORKER_NAME)",
        "--nworkers": str(pods.cpus),
        "--nthreads": "1",
        "--memory-limit": f"{worker_memory(profile)}B",
        "--local-directory": _SCRATCH,
        "--lifetime": f"{seconds(pods.lifetime)}s",
        "--lifetime-stagger": f"{seconds(pods.lifetime_stagger)}s",
        "--death-timeout": str(seconds(pods.death_timeout)),
    }
    words = [word for option in options.items() for word in option]
    size = {"cpu": str(pods.cpus), "memory": pods.memory}
    return {
        **_container(profile, "worker", dask_settings.WORKER_ENVIRONMENT),
        "args": [
            # The operator sets an address without TLS in the environment; this one overrides it.
            "python", "-m", "distributed.cli.dask_worker", profile.service_address, *words,
            "--lifetime-restart", "--no-dashboard", *_tls_arguments(profile),
        ],
        "resources": {"requests": size, "limits": size},
    }  # fmt: skip


def _container(
    profile: KubernetesProfile, name: str, environment: dict[str, str]
) -> dict[str, Any]:
    pods = profile.pods
    encrypted = dask_settings.ENCRYPTED_ENVIRONMENT if profile.tls else {}
    mounts = [
        {"name": f"data-{number}", "mountPath": volume.path, "readOnly": volume.read_only}
        for number, volume in enumerate(pods.volumes)
    ]
    mounts.append({"name": "scratch", "mountPath": _SCRATCH})
    if profile.tls:
        mounts.append({"name": "tls", "mountPath": _CERTIFICATES, "readOnly": True})
    return {
        "name": name,
        "image": pods.image,
        "env": [
            {"name": key, "value": value} for key, value in {**environment, **encrypted}.items()
        ],
        "volumeMounts": mounts,
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }


def _pod(profile: KubernetesProfile, container: dict[str, Any]) -> dict[str, Any]:
    pods = profile.pods
    volumes: list[dict[str, Any]] = [
        {"name": f"data-{number}", "persistentVolumeClaim": {"claimName": volume.claim}}
        for number, volume in enumerate(pods.volumes)
    ]
    volumes.append({"name": "scratch", "emptyDir": {}})
    if profile.tls:
        volumes.append({"name": "tls", "secret": {"secretName": pods.tls_secret}})
    return {
        "containers": [container],
        "volumes": volumes,
        # An attacker who takes over a worker gets no Kubernetes credentials.
        "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "runAsUser": pods.user},
        **_placement(pods),
    }


def _placement(pods: Pods) -> dict[str, Any]:
    secret = pods.image_pull_secret
    placement = {
        "nodeSelector": pods.node_selector,
        "serviceAccountName": pods.service_account,
        "imagePullSecrets": None if secret is None else [{"name": secret}],
    }
    return {key: value for key, value in placement.items() if value}


def _tls_arguments(profile: KubernetesProfile) -> list[str]:
    if not profile.tls:
        return []
    files = {"--tls-ca-file": "ca", "--tls-cert": "cert", "--tls-key": "key"}
    return [
        word for option, name in files.items() for word in (option, f"{_CERTIFICATES}/{name}.pem")
    ]


def _kubectl(profile: KubernetesProfile, arguments: list[str], stdin: str = "") -> None:
    context = [] if profile.context is None else [f"--context={profile.context}"]
    words = ["kubectl", *context, f"--namespace={profile.namespace}", *arguments]
    try:
        subprocess.run(words, input=stdin, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise _no_kubectl() from error
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines() or ["it says nothing"]
        raise InputError(
            f"kubectl {arguments[0]} failed: {lines[-1]}", where="--cluster", value=profile.name
        ) from error
