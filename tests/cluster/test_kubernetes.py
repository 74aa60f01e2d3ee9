"""The example for Kubernetes conforms to the operator's own schema."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for

CRD = json.loads((Path(__file__).parent / "operator" / "daskcluster.v1.json").read_text())
EXAMPLE = Path(__file__).parents[2] / "cluster" / "kubernetes" / "daskcluster.yaml"


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
    resource: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
    return resource


@pytest.mark.slow
def test_the_resource_conforms_to_the_operators_schema() -> None:
    validate(example())


@pytest.mark.slow
@pytest.mark.parametrize("container", ["scheduler", "worker"])
def test_containers_run_commands_of_the_installed_dask(container: str) -> None:
    """Every option in the arguments is an option of the command."""
    pod = example()["spec"][container]["spec"]["containers"][0]
    python, *words = pod["args"]
    assert python == "python"
    known = subprocess.run(
        [sys.executable, *words[:2], "--help"], check=True, capture_output=True, text=True
    ).stdout
    assert [word for word in words[2:] if word.startswith("--") and word not in known] == []
