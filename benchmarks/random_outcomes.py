"""An outcome store of random phenotypes, for measuring sums at any number of them.

Aligning a text file of 500,000 people by 1,000 phenotypes takes longer than summing over them, and
is another benchmark's business.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from primo_scale.outcomes.bounds import PhenotypeBounds
from primo_scale.outcomes.coding import OutcomeCoding, code_outcomes
from primo_scale.outcomes.store import CHUNK_BYTES, KIND, OutcomeStore, open_outcome_store
from primo_scale.storage.chunks import write_block
from primo_scale.storage.groups import create_array, create_group, flush, mark_complete

_SDS = 4.0


def random_coding(phenotypes: int, weight: float) -> OutcomeCoding:
    """The lattice of `phenotypes` standardised quantitative traits, and no covariates."""
    bounds = [
        PhenotypeBounds(f"Y{number}", -_SDS, _SDS, 0.0, 1.0, "quantitative")
        for number in range(1, phenotypes + 1)
    ]
    return code_outcomes(bounds, [], weight=weight)


def write_random_outcomes(path: Path, samples: int, coding: OutcomeCoding) -> OutcomeStore:
    """Write standard normal phenotypes on the lattice, as `align_outcomes` would have."""
    rng = np.random.default_rng()
    q, count = coding.n_columns, len(coding.phenotypes)
    group = create_group(path, KIND, {"request_digest": "", "coding_digest": coding.digest})
    height = max(1, min(samples, CHUNK_BYTES // (q * np.dtype(np.int16).itemsize)))
    rows = create_array(group, "rows", shape=(samples, q), chunks=(height, q), dtype=np.int16)
    digest = hashlib.sha256()
    for start in range(0, samples, height):
        stop = min(start + height, samples)
        values = rng.standard_normal((stop - start, count), dtype=np.float32)
        part = np.full((stop - start, q), coding.constant, dtype=np.int16)
        part[:, q - count :] = coding.code_phenotypes(values.astype(np.float64))
        write_block(rows, (slice(start, stop), slice(None)), part)
        digest.update(part.tobytes())
    observed = create_array(group, "observed", shape=(count,), chunks=(count,), dtype=np.int64)
    write_block(observed, (slice(None),), np.full(count, samples, dtype=np.int64))
    flush(group)
    mark_complete(group, {"content_digest": digest.hexdigest()})
    return open_outcome_store(path)
