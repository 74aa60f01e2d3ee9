"""A DaskCluster is applied before a run and deleted after it, by a kubectl that logs its calls."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from primo_scale.cluster.connect import dask_client
from primo_scale.cluster.kubernetes import applied, manifest
from primo_scale.cluster.profile import KubernetesProfile, Pods
from primo_scale.errors import InputError

NOTES = """\
#!{python}
import pathlib, sys
with open({notes!r}, "a") as notes:
    notes.write(" ".join(sys.argv[1:]) + "\\n")
pathlib.Path({stdin!r}).write_text(sys.stdin.read()) if "apply" in sys.argv else None
if "refused" in sys.argv[1]:
    sys.exit("Error from server (Forbidden): daskclusters is forbidden")
"""


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch) -> Path:
    """Provide the directory of the logged kubectl calls."""
    script = tmp_path / "kubectl"
    notes, stdin = str(tmp_path / "notes"), str(tmp_path / "stdin")
    script.write_text(NOTES.format(python=sys.executable, notes=notes, stdin=stdin))
    script.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def profile(**changes: object) -> KubernetesProfile:
    return KubernetesProfile(
        Pods("i"), "run", "space", tls=False, **{"address": "tcp://127.0.0.1:1", **changes}
    )


def test_the_cluster_is_applied_and_deleted_even_after_an_error(kubectl: Path) -> None:
    with pytest.raises(KeyboardInterrupt), applied(profile(context="site")) as address:
        assert address == "tcp://127.0.0.1:1"
        assert json.loads((kubectl / "stdin").read_text()) == manifest(profile())
        raise KeyboardInterrupt
    assert (kubectl / "notes").read_text().splitlines() == [
        "--context=site --namespace=space apply --filename=-",
        "--context=site --namespace=space delete daskcluster.kubernetes.dask.org run "
        "--ignore-not-found --wait=false",
    ]


def test_a_refusal_by_kubectl_is_a_one_line_error(kubectl: Path) -> None:
    with (
        pytest.raises(InputError, match=r"kubectl apply failed: .*Forbidden"),
        applied(profile(context="refused")),
    ):
        pass


def test_a_missing_kubectl_is_a_one_line_error(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="kubectl is not installed"), applied(profile()):
        pass


def test_certificates_are_checked_before_resources_are_created(kubectl: Path) -> None:
    wrong = KubernetesProfile(Pods("i"), "run", address="tls://127.0.0.1:1", tls=str(kubectl))
    with (
        pytest.raises(InputError, match="a certificate file is missing"),
        dask_client(wrong, kubectl),
    ):
        pass
    assert not (kubectl / "notes").exists()


@pytest.mark.slow
@pytest.mark.parametrize("container", ["scheduler", "worker"])
def test_containers_run_commands_of_the_installed_dask(container: str) -> None:
    """Every option in the arguments is an option of the command."""
    pod = manifest(profile())["spec"][container]["spec"]["containers"][0]
    python, *words = pod["args"]
    assert python == "python"
    known = subprocess.run(
        [sys.executable, *words[:2], "--help"], check=True, capture_output=True, text=True
    ).stdout
    assert [word for word in words[2:] if word.startswith("--") and word not in known] == []
