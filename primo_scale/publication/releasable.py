"""Refusal of names and weights that no release can carry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from primo_scale.errors import InputError
from primo_scale.genotypes.tables import VariantTable
from primo_scale.humanize import examples
from primo_scale.publication.weights import INTERCEPT, TERM_COLUMN, WEIGHTS_HEADER, ScoringWeights

_EXAMPLES = 3
_BEGINS_A_FORMULA = ("=", "+", "-", "@")
_NAME_VARIANTS = "Name variants with `plink2 --set-all-var-ids @:#:$r:$a`"


def check_releasable(weights: ScoringWeights) -> None:
    """Refuse weights that cannot be scored unambiguously, or that are not finite."""
    check_names(weights.variants, weights.phenotypes, weights.covariates)
    for what, values in (
        ("variant", weights.per_allele),
        ("intercept", weights.intercept),
        ("covariate", weights.covariate_weights),
        ("centre dosage", weights.centre_dosage),
    ):
        bad = int(np.count_nonzero(~np.isfinite(values)))
        if bad:
            raise InputError(
                f"{bad} {what} weights are not finite numbers",
                where="release",
                remedy="Raise --ridge, or use smaller LD blocks",
            )


def check_names(
    variants: VariantTable, phenotypes: Sequence[str], covariates: Sequence[str]
) -> None:
    """Refuse IDs, alleles, chromosomes and names that no release can carry."""
    check_variant_identifiers(variants.identifier)
    check_column_names("phenotype", phenotypes, reserved=(*WEIGHTS_HEADER, TERM_COLUMN))
    check_column_names("covariate", covariates)
    _refuse_formulas(
        "variant ID", variants.identifier, f"{_NAME_VARIANTS}, or leave them out with --exclude"
    )
    for alleles in (variants.allele1, variants.allele2):
        _refuse_formulas("allele", alleles, "Leave the variant out with --exclude")
    _refuse_formulas("chromosome", variants.chromosome, "Leave its variants out with --exclude")
    for name in set(variants.chromosome):
        if not name.isprintable():
            raise InputError(
                "a chromosome has control characters in its name",
                where="release",
                value=repr(name),
                remedy="Leave its variants out with --exclude",
            )


def check_variant_identifiers(identifiers: npt.NDArray[np.object_]) -> None:
    """Refuse variant IDs that are repeated, missing or reserved."""
    counts = Counter(identifiers.tolist())
    repeated = [name for name, count in counts.items() if count > 1]
    if repeated:
        raise InputError(
            "variant IDs are repeated, so that a score file would be ambiguous: "
            f"{len(repeated)} of {len(counts)}",
            where="release",
            value=examples(list(map(repr, repeated)), _EXAMPLES),
            remedy=f"{_NAME_VARIANTS}, or drop the copies with `plink2 --rm-dup` or --exclude, and "
            "ingest again",
        )
    reserved = [name for name in counts if name == "." or name.startswith("#")]
    if reserved:
        raise InputError(
            "variant IDs are missing, or reserved in a release",
            where="release",
            value=examples(list(map(repr, reserved)), _EXAMPLES),
            remedy=f"{_NAME_VARIANTS} and ingest again",
        )


def check_column_names(kind: str, names: Sequence[str], reserved: Sequence[str] = ()) -> None:
    """Refuse names that cannot name columns of a table, are `reserved`, or are formulas."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise InputError(
            f"two columns have the same {kind} name", where="release", value=repeated[0]
        )
    for name in names:
        if not name.isprintable() or name.split() != [name] or name in (INTERCEPT, *reserved):
            raise InputError(
                f"a {kind} name is empty or reserved, or contains blanks or control characters",
                where="release",
                value=repr(name),
                remedy="Rename the column",
            )
    _refuse_formulas(f"{kind} name", names, "Rename the column")


def _refuse_formulas(what: str, texts: Iterable[str], remedy: str) -> None:
    """Refuse the first of the texts, which are a `what`, that begins like a formula.

    Quoted texts would not match the genotypes to be scored. A single character, such as ``-`` for
    an absent allele, is not a formula.
    """
    for text in texts:
        if text.startswith(_BEGINS_A_FORMULA) and len(text) > 1:
            raise InputError(
                f"a {what} begins with =, +, - or @, which spreadsheets execute as a formula",
                where="release",
                value=repr(text),
                remedy=remedy,
            )
