"""Job scripts and manifests of the examples, and the operator's own schema for manifests."""

import copy
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from small_cohort import command, refused, succeeded
from write_golden import EXAMPLES, FOLDER, GOLDEN, rendered

from primo_scale.cli import show_cluster
from primo_scale.cluster.certificates import make_certificates
from primo_scale.cluster.kubernetes import manifest
from primo_scale.cluster.profile import KubernetesProfile, Pods, Volume, read_profile

CRD = json.loads((Path(__file__).parent / "operator" / "daskcluster.v1.json").read_text())


@pytest.mark.parametrize("kind", GOLDEN)
def test_an_example_renders_to_its_golden_file(kind: str) -> None:
    assert rendered(kind) == (FOLDER / GOLDEN[kind]).read_text()


def test_certificates_that_a_run_refuses_are_refused(tmp_path: Path) -> None:
    tls = make_certificates(tmp_path / "tls").directory
    profile = tmp_path / "profile.toml"
    profile.write_text('kind = "slurm"\ntls = "tls"\n')
    assert "tls/cert.pem" in succeeded(command(show_cluster.main, profile)).stdout
    tls.chmod(0o750)
    refused(command(show_cluster.main, profile), 3, "open to others (got mode 0750", "chmod go=")


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
