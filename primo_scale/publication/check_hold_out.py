"""Check of the measurement in the people held out, from release.json alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from primo_scale.privacy.held_out_accuracy import N_COUNTS, accuracy_of
from primo_scale.publication.document import Document
from primo_scale.publication.recompute_profile import is_about


def hold_out_problems(document: Document) -> Iterator[str]:
    """Yield the contradictions of the measurement, whose noise `recompute` checks."""
    hold_out, public = document["hold_out"], document["public_inputs"]
    noise = {query["name"]: query["sigma"][0] for query in document["mechanism"]["queries"]}
    sigma = noise["held_out_counts"], noise["held_out_gram"]
    names = [phenotype["name"] for phenotype in public["phenotypes"]]
    found = [phenotype["name"] for phenotype in hold_out["phenotypes"]]
    if found != names:
        yield f"measures {len(found)} phenotypes, not those of public_inputs in their order"
        return
    for stated, phenotype in zip(hold_out["phenotypes"], public["phenotypes"], strict=True):
        name = stated["name"]
        if len(stated["counts"]) != N_COUNTS:
            yield f"{name}: {len(stated['counts'])} counts, not {N_COUNTS}"
            continue
        centre, bound, accuracy = accuracy_of(phenotype, stated, hold_out, sigma)
        if not is_about([stated["score_centre"], stated["score_bound"]], [centre, bound]):
            yield f"{name}: the range of scores is not the one that the counts choose"
        for number, value in asdict(accuracy).items():
            if not is_about(stated[number], value):
                yield f"{name}: {number} is {stated[number]}, recomputed {value}"
        if stated["calibration"] not in (1.0, stated["slope"]):
            yield f"{name}: the weights were multiplied by another number than the slope"
