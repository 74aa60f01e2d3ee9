"""Check of the descriptions in release.json that come from tables of this program."""

from __future__ import annotations

import re
from pathlib import Path

from primo_scale.methods.catalogue import METHODS, REASONS
from primo_scale.methods.estimators import ESTIMATORS
from primo_scale.privacy.planning import PRIOR_HERITABILITY
from primo_scale.publication.document import Document
from primo_scale.publication.wording import effective_size_in_words

_NUMBER = re.compile(r"[0-9]{1,19}(\.[0-9]{1,9})?(e-[0-9]{1,3})?")


def description_problems(_: Path, document: Document) -> list[str]:
    """Return the descriptions that differ from those of this version."""
    estimation, mechanism = document["estimation"], document["mechanism"]
    estimator = ESTIMATORS[estimation["estimator"]]
    on_scores = bool(estimation.get("public_scores"))
    heritability = PRIOR_HERITABILITY if document["private"] else None
    size = effective_size_in_words(heritability, on_scores=on_scores)
    pairs: dict[str, tuple[str, tuple[str, ...]]] = {
        "estimation.shrinkage": (estimation["shrinkage"], (estimator.description,)),
        "estimation.eigenvalue_floor": (estimation["eigenvalue_floor"], (estimator.floor,)),
        "accuracy.definition": (document["accuracy"]["definition"], (size,)),
    }
    if mechanism is not None:
        summary = METHODS[mechanism["method"]].summary
        pairs["mechanism.summary"] = (mechanism["summary"], (summary,))
        pairs["mechanism.reason"] = (mechanism["reason"], REASONS)
    return [
        f"has another {name} than this version writes"
        for name, (stated, known) in pairs.items()
        if _without_numbers(stated) not in map(_without_numbers, known)
    ]


def _without_numbers(text: str) -> str:
    return _NUMBER.sub("0", text)
