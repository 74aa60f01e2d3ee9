"""Opening, creation and size of the checkpoint of a plan.

The plan digest covers all inputs that determine the partial sums, so that sums of different plans
are never mixed.
"""

from __future__ import annotations

import random
import uuid
from typing import Any

import numpy as np

from primo_scale.accumulation.clipping_rules import multiplier_columns
from primo_scale.accumulation.partials import KIND, MULTIPLIER_COLUMNS, SUBSAMPLE, Inputs, Partials
from primo_scale.accumulation.plan import Plan, plan_digest
from primo_scale.accumulation.workload import Workload
from primo_scale.genotypes.coding import LARGEST_CODE, largest_code
from primo_scale.kernels import AUTOMATIC
from primo_scale.kernels.products import Int8
from primo_scale.storage import groups
from primo_scale.storage.chunks import array_bytes, write_array, write_block
from primo_scale.storage.files import canonical_json
from primo_scale.storage.locations import Location
from primo_scale.storage.resume import of_other_request

_WHOLE = (slice(None), slice(None))


def open_partials(
    path: Location, plan: Plan, inputs: Inputs, code_table: Int8, kernel: str = AUTOMATIC
) -> Partials:
    """Open the store of partial sums of a plan, or create it; one of another plan is refused.

    Genotypes and outcomes may have moved since the store was created; tasks read them at the
    locations in `inputs`. `code_table` is the public code of each 2-bit value for each variant,
    shape (d, 4).
    """
    digest = plan_digest(plan, inputs.to_json())
    if groups.is_complete(path, KIND):
        group = groups.open_group(path, KIND, complete=False)
        attributes = groups.attributes_of(group)
        if attributes["plan_digest"] != digest:
            differences = ", ".join(_differences(attributes, plan, inputs)) or "another plan"
            raise of_other_request(path, value=differences)
        if attributes["paths"] != _paths(inputs):
            groups.mark_complete(group, {"paths": _paths(inputs)})
        partials = Partials(path, str(attributes["store_id"]), kernel)
        write_block(partials.array("code_table"), _WHOLE, code_table)  # repairs a damaged one
        return partials
    return Partials(path, _create(path, plan, inputs, code_table), kernel)


def _create(path: Location, plan: Plan, inputs: Inputs, code_table: Int8) -> str:
    """Create the empty store and return its random name."""
    store_id = uuid.uuid4().hex
    group = groups.create_group(path, KIND, {})
    largest = largest_code(code_table) if inputs.components is None else LARGEST_CODE
    arrays = _partial_arrays(
        plan, len(code_table), multiplier_columns(inputs.clipping_rule), largest
    )
    groups.create_arrays(group, {f"{store_id}/{name}": layout for name, layout in arrays.items()})
    write_block(groups.array_of(group, f"{store_id}/code_table"), _WHOLE, code_table)
    if inputs.subsample is not None:
        _draw_subsample(group, f"{store_id}/{SUBSAMPLE}", plan.n_samples, inputs.subsample)
    # Chunks that a power failure damages are computed again, but metadata cannot be.
    groups.flush(group)
    groups.mark_complete(
        group,
        {
            "store_id": store_id,
            "plan": plan.to_json(),
            "inputs": inputs.to_json(),
            "plan_digest": plan_digest(plan, inputs.to_json()),
            "paths": _paths(inputs),
        },
    )
    return store_id


def _paths(inputs: Inputs) -> dict[str, str]:
    """Return the locations of the inputs, which may change without an effect on the sums."""
    components = inputs.components
    return {
        "genotypes": str(inputs.genotypes.resolve()),
        "outcomes": str(inputs.outcomes.resolve()),
        **({} if components is None else {"components": str(components.resolve())}),
    }


def _partial_arrays(
    plan: Plan, n_variants: int, columns: int, largest: int
) -> dict[str, groups.ArrayLayout]:
    """Return the layout of every array of a store, except for a subsample, by name.

    A person has as many row multipliers as `columns`, and codes have a magnitude up to `largest`.
    """
    layout, q, planes = plan.layout, plan.layout.n_outcomes, plan.n_planes - 1
    row_groups, n, rows = plan.n_row_groups, plan.n_samples, plan.rows_per_read
    multipliers = (rows, min(columns, MULTIPLIER_COLUMNS))
    arrays = {
        "code_table": groups.ArrayLayout((n_variants, 4), (65536, 4), np.int8),
        "row_multipliers": groups.ArrayLayout((n, columns), multipliers, np.uint32),
        "outcome_planes": groups.ArrayLayout((planes, n), (planes, rows), np.int8),
        "outcome_gram": groups.ArrayLayout((plan.n_stripes, q, q), (1, q, q), np.int64),
    }
    kind = plan.gram_type(largest)
    for block, size in enumerate(layout.sizes):
        side = min(plan.tile, size)
        if plan.sums_gram:
            arrays[f"gram/{block}"] = groups.ArrayLayout(
                (row_groups, size, size), (1, side, side), kind
            )
        width = q if plan.sums_gram else 1  # a direction has one phenotype
        arrays[f"cross/{block}"] = groups.ArrayLayout(
            (row_groups, size, width), (1, side, width), np.int64
        )
    return arrays


def partial_bytes(work: Workload) -> int:
    """Return the bytes that tasks commit, which are removed when the statistics are finished."""
    plan = work.plan
    arrays = _partial_arrays(plan, work.n_variants, work.multiplier_columns, work.largest_code)
    total = plan.n_samples if work.subsampled else 0
    for block in range(plan.layout.n_blocks):
        tiles = plan.n_row_groups * work.upper_tiles(block)
        if not plan.sums_gram:
            continue
        total += array_bytes(arrays.pop(f"gram/{block}"), chunks=tiles)
    return total + sum(map(array_bytes, arrays.values()))


def _draw_subsample(group: groups.Group, name: str, n_samples: int, size: int) -> None:
    """Draw a subsample of people uniformly without replacement, and store its members.

    Privacy amplification requires a secret subsample. It is drawn once for each store, from the
    operating system's entropy, and is deleted with the store.
    """
    chosen = np.zeros(n_samples, dtype=np.uint8)
    chosen[random.SystemRandom().sample(range(n_samples), size)] = 1
    write_array(group, name, chosen, (min(n_samples, 1 << 20),))


def _differences(attributes: dict[str, Any], plan: Plan, inputs: Inputs) -> list[str]:
    """Return the names of attributes that differ; their values are private."""
    stored = {**attributes["plan"], **attributes["inputs"]}
    asked = {**plan.to_json(), **inputs.to_json()}
    return sorted(
        name.replace("_", " ")
        for name in stored.keys() | asked.keys()
        if canonical_json(stored.get(name)) != canonical_json(asked.get(name))
    )
