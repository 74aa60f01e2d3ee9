"""Job scripts and manifests of the examples, and the operator's own schema for manifests.

``ACCEPT_GOLDEN=1 python -m pytest tests/cluster/test_rendered.py`` writes the golden files. Read
the differences before committing them, because sites run these job scripts.
"""

import copy
import json
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import dask
import dask_jobqueue
import jsonschema
import pytest
import yaml
from click.testing import CliRunner
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from support.small_cohort import command, refused, succeeded

from primo_scale.cli.commands import cluster_show
from primo_scale.cluster.certificates import make_certificates
from primo_scale.cluster.kubernetes import manifest
from primo_scale.cluster.profile import KubernetesProfile, Pods, Volume, read_profile

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
            cluster_show, [str(EXAMPLES / kind / f"{kind}.toml")], catch_exceptions=False
        )
    assert result.exit_code == 0, result.output
    if kind == "kubernetes":
        return yaml.safe_dump(json.loads(result.output), sort_keys=False)
    return result.output


CRD = json.loads((Path(__file__).parent / "operator" / "daskcluster.v1.json").read_text())


@pytest.mark.parametrize("kind", GOLDEN)
def test_an_example_renders_to_its_golden_file(kind: str) -> None:
    if "ACCEPT_GOLDEN" in os.environ:
        (FOLDER / GOLDEN[kind]).write_text(rendered(kind))
    assert rendered(kind) == (FOLDER / GOLDEN[kind]).read_text()


def test_certificates_that_a_run_refuses_are_refused(tmp_path: Path) -> None:
    tls = make_certificates(tmp_path / "tls").directory
    profile = tmp_path / "profile.toml"
    profile.write_text('kind = "slurm"\ntls = "tls"\n')
    assert "tls/cert.pem" in succeeded(command(cluster_show, profile)).stdout
    tls.chmod(0o750)
    refused(command(cluster_show, profile), 3, "open to others (got mode 0750", "chmod go=")


def closed(schema: Any) -> Any:
    """Return the schema without unknown properties, which Kubernetes drops without a warning."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: closed(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and "type" in schema:
        assert "additionalProperties" not in schema
        assert "x-kubernetes-preserve-unknown-fields" not in schema
        inner["additionalProperties"] = False
    return inner


@cache
def checked_schema() -> Validator:
    """Return the operator's schema, closed and found valid itself."""
    schema = closed(CRD["schema"])
    validator = validator_for(schema)
    validator.check_schema(schema)
    return validator(schema)


def validate(resource: dict[str, Any]) -> None:
    """Check a resource by the operator's definition, which must allow every part of it."""
    facts = {"apiVersion": f"{CRD['group']}/{CRD['version']}", "kind": CRD["kind"]}
    assert {key: resource[key] for key in facts} == facts
    assert set(resource) == {*facts, "metadata", "spec"}
    checked_schema().validate({"spec": resource["spec"]})


def example() -> dict[str, Any]:
    profile = read_profile(EXAMPLES / "kubernetes" / "kubernetes.toml")
    assert isinstance(profile, KubernetesProfile)
    return manifest(profile)


BARE = KubernetesProfile(Pods("i"), "a", address="tcp://a:8786", tls=False)
FULL = KubernetesProfile(
    Pods(
        "i", volumes=(Volume("c", "/c"),), node_selector={"zone": "a"}, service_account="s",
        image_pull_secret="p",
    ),
    "a",
    address="tcp://a:8786",
    tls=False,
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "resource", [example(), manifest(BARE), manifest(FULL)], ids=["example", "bare", "full"]
)
def test_a_manifest_conforms_to_the_operators_schema(resource: dict[str, Any]) -> None:
    validate(resource)


def pod(resource: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = resource["spec"]["worker"]["spec"]
    return found


WRONG: dict[str, Callable[[dict[str, Any]], object]] = {
    "typo in the spec": lambda r: r["spec"].update(idleTimeOut=0),
    "typo in the pod": lambda r: pod(r).update(nodeSelectors={}),
    "typo in a container": lambda r: pod(r)["containers"][0].update(arg=[]),
    "no service": lambda r: r["spec"]["scheduler"].pop("service"),
    "wrong type": lambda r: r["spec"]["worker"].update(replicas="2"),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_invalid_manifest_is_detected(name: str) -> None:
    resource = copy.deepcopy(example())
    WRONG[name](resource)
    with pytest.raises(jsonschema.ValidationError):
        validate(resource)
