"""Releases of degenerate cohorts: their output, their messages to the cluster, and comparisons."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from acceptance_inputs import Float64, Published, texts
from distributed import Client
from edge_cohorts import EdgeCohort

from primo_scale.version import __version__

# Parts of a release that noise or the date changes; all others must follow from public facts.
_NOISY = re.compile(
    r"estimation\.(attenuation|penalties|parameters)|signature|created"
    r"|public_inputs\.phenotypes\.\d+\.sd|ledger\.charges\.\d+\.id|files\.\d+\.(sha256|bytes)"
)
_NUMBER = r"-?\b\d+(\.\d+)?(e[-+]?\d+)?\b"
_RANDOM = r"\b([0-9a-f]{16}|[0-9a-f]{64}|[0-9a-f]{128})\b|\b\d{4}-\d\d-\d\d\b"


@dataclass(frozen=True)
class Recorder:
    """Dask client, and the tasks that it sent to its cluster since the last `take`."""

    client: Client
    sent: list[tuple[Any, ...]] = field(default_factory=list)

    def take(self) -> list[tuple[Any, ...]]:
        taken = list(self.sent)
        self.sent.clear()
        return taken


@dataclass(frozen=True)
class Released:
    """Release of a cohort, with all output of the run and all tasks sent to the cluster."""

    cohort: EdgeCohort
    published: Published
    work: Path
    stdout: str
    stderr: str
    sent: list[tuple[Any, ...]]

    def stored(self, name: str) -> dict[str, Any]:
        """Return the content of a JSON file of the work directory."""
        return json.loads((self.work / name).read_text())


def weights_in(release: Path) -> Float64:
    """Return all weights, including those of the intercept and the covariates."""
    published = Published(release)
    return np.vstack(
        [
            published.variant_weights.to_numpy(np.float64),
            published.intercept,
            published.covariate_weights,
        ]
    )


def assert_same_but_for_noise(one: Released, other: Released) -> None:
    """Compare files, lines and statements, except for noisy numbers and names of charges."""
    first, second = texts(one.published.path), texts(other.published.path)
    assert list(first) == list(second)
    assert first["centre.afreq"] == second["centre.afreq"]
    for name in first.keys() - {"release.json"}:
        assert skeleton(name, first[name]) == skeleton(name, second[name]), name
    statements = [dict(leaves(each.published.statement)) for each in (one, other)]
    assert statements[0] == statements[1]
    assert any(name.startswith("cohort.") for name in statements[0])  # leaves were compared


def skeleton(name: str, text: str) -> list[str]:
    """Return the lines of a file without digests, dates, and numbers in files that hold noise."""
    text = re.sub(_RANDOM, "RANDOM", text)
    if name == "release.log":
        return text.splitlines()
    if name == "report.html":  # verify redraws the pictures from the noisy weights
        text = re.sub(r"<svg.*?</svg>", "PICTURE", text, flags=re.DOTALL)
    if name.endswith(".gz"):
        rows = [line.split("\t") for line in text.splitlines()]
        return ["\t".join(re.sub(_NUMBER, "N", cell) for cell in row) for row in rows]
    return [re.sub(_NUMBER, "N", line) for line in text.splitlines()]


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the path and value of every leaf of a JSON document, except for noisy ones."""
    if _NOISY.match(path):
        return
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in pairs:
            yield from leaves(inner, f"{path}.{key}" if path else str(key))
        return
    yield path, value


def sent_tasks(released: Released) -> list[tuple[Any, ...]]:
    """Return the tasks sent to the cluster, without random names and the work directory."""
    sent = []
    for function, key, (path, store_id, *others), task in released.sent:
        assert others == ["auto", __version__]
        assert path == (released.work / "partials.zarr").resolve()
        name = f"{store_id}-0"  # no worker died
        assert key == f"{task.key}-{name}"
        sent.append((function, key.removesuffix(name), task))
    return sent
