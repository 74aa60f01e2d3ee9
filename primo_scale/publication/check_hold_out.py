"""Check of the measurement in the people held out, from release.json alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

import numpy as np

from primo_scale.privacy.held_out_accuracy import (
    N_COUNTS,
    held_out_accuracy,
    hold_out_scale,
    score_ranges,
)
from primo_scale.publication.document import Document
from primo_scale.publication.recompute_profile import is_about


def hold_out_problems(document: Document) -> Iterator[str]:
    """Yield the contradictions of the measurement, whose noise `recompute` checks."""
    hold_out, public = document["hold_out"], document["public_inputs"]
    sigma = {query["name"]: query["sigma"][0] for query in document["mechanism"]["queries"]}
    names = [phenotype["name"] for phenotype in public["phenotypes"]]
    found = [phenotype["name"] for phenotype in hold_out["phenotypes"]]
    if found != names:
        yield f"measures {len(found)} phenotypes, not those of public_inputs in their order"
        return
    for stated, phenotype in zip(hold_out["phenotypes"], public["phenotypes"], strict=True):
        name, residual = stated["name"], stated["residual_bound"]
        if len(stated["counts"]) != N_COUNTS:
            yield f"{name}: {len(stated['counts'])} counts, not {N_COUNTS}"
            continue
        counts = np.array([stated["counts"]])
        counts_sigma = sigma["held_out_counts"]
        ranges = score_ranges(counts, counts_sigma, np.array([residual]))
        centre, bound = (float(numbers[0]) for numbers in ranges)
        if not is_about([stated["score_centre"], stated["score_bound"]], [centre, bound]):
            yield f"{name}: the range of scores is not the one that the counts choose"
        scale = hold_out_scale(phenotype, stated, hold_out, counts_sigma)
        accuracy = held_out_accuracy(stated["sums"], sigma["held_out_gram"], scale)
        for number, value in asdict(accuracy).items():
            if not is_about(stated[number], value):
                yield f"{name}: {number} is {stated[number]}, recomputed {value}"
        if stated["calibration"] not in (1.0, stated["slope"]):
            yield f"{name}: the weights were multiplied by another number than the slope"
