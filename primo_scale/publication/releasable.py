"""Refusal of names and weights that no release can carry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from primo_scale.errors import InputError
from primo_scale.genotypes.tables import VariantTable
from primo_scale.publication.weights import INTERCEPT, ScoringWeights

_EXAMPLES = 3
_BEGINS_A_FORMULA = ("=", "+", "-", "@")


def check_releasable(weights: ScoringWeights) -> None:
    """Check that weights can be scored unambiguously.

    Raises
    ------
    InputError
        Variant IDs are repeated, missing or reserved; names of phenotypes or covariates are
        repeated, contain blanks or begin like a formula; or weights are not finite.
    """
    check_variant_identifiers(weights.variants.identifier)
    check_column_names("phenotype", weights.phenotypes)
    check_column_names("covariate", weights.covariates)
    refuse_formulas(weights.variants, phenotypes=weights.phenotypes, covariates=weights.covariates)
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


def check_variant_identifiers(identifiers: npt.NDArray[np.object_]) -> None:
    """Check variant IDs.

    Raises
    ------
    InputError
        IDs are repeated, missing or reserved.
    """
    counts = Counter(identifiers.tolist())
    repeated = [name for name, count in counts.items() if count > 1]
    if repeated:
        raise InputError(
            f"{len(repeated)} variant IDs occur more than once, so a score file would be ambiguous",
            where="release",
            value=_examples(repeated),
            remedy="Name variants with `plink2 --set-all-var-ids @:#:$r:$a`, or drop the copies "
            "with `plink2 --rm-dup` or --exclude, and ingest again",
        )
    reserved = [name for name in counts if name == "." or name.startswith("#")]
    if reserved:
        raise InputError(
            "variant IDs are missing, or reserved in a release",
            where="release",
            value=_examples(reserved),
            remedy="Name variants with `plink2 --set-all-var-ids @:#:$r:$a` and ingest again",
        )


def check_column_names(kind: str, names: Sequence[str]) -> None:
    """Check that names of phenotypes or covariates can be column names of a score file.

    Raises
    ------
    InputError
        A name is repeated, empty or `INTERCEPT`, or contains blanks or control characters.
    """
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise InputError(
            f"two columns have the same {kind} name", where="release", value=repeated[0]
        )
    for name in names:
        if not name.isprintable() or name.split() != [name] or name == INTERCEPT:
            raise InputError(
                f"a {kind} name is empty or reserved, or contains blanks or control characters",
                where="release",
                value=repr(name),
                remedy="Rename the column",
            )


def refuse_formulas(
    variants: VariantTable, *, phenotypes: Sequence[str], covariates: Sequence[str]
) -> None:
    """Refuse names of columns, IDs, alleles and chromosomes that begin like a formula.

    Quoted texts would not match the genotypes to be scored. A single character, such as ``-`` for
    an absent allele, is not a formula.

    Raises
    ------
    InputError
        A text begins like a formula.
    """
    rename = "Rename the column"
    name = (
        "Name variants with `plink2 --set-all-var-ids @:#:$r:$a`, or leave them out with --exclude"
    )
    columns: tuple[tuple[str, Iterable[str], str], ...] = (
        ("phenotype name", phenotypes, rename),
        ("covariate name", covariates, rename),
        ("variant ID", variants.identifier, name),
        ("allele", variants.allele1, "Leave the variant out with --exclude"),
        ("allele", variants.allele2, "Leave the variant out with --exclude"),
        ("chromosome", variants.chromosome, "Leave its variants out with --exclude"),
    )
    for what, texts, remedy in columns:
        refuse_formula_texts(what, texts, remedy)


def refuse_formula_texts(what: str, texts: Iterable[str], remedy: str) -> None:
    """Raise an InputError with the first of the texts, which are a `what`, that is a formula."""
    for text in texts:
        if text.startswith(_BEGINS_A_FORMULA) and len(text) > 1:
            raise InputError(
                f"a {what} begins with =, +, - or @, which spreadsheets execute as a formula",
                where="release",
                value=repr(text),
                remedy=remedy,
            )


def _examples(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_EXAMPLES])
    return shown if len(names) <= _EXAMPLES else f"{shown}, ..."
