"""Check for texts that a spreadsheet program would execute as formulas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from primo_scale.errors import InputError
from primo_scale.genotypes.tables import VariantTable

_FIRST_CHARACTERS = ("=", "+", "-", "@")


def refuse_formulas(
    variants: VariantTable, *, phenotypes: Sequence[str], covariates: Sequence[str]
) -> None:
    """Refuse names, IDs, alleles and chromosomes that begin like a formula.

    Quoted texts would not match the genotypes to be scored. A single character, such as ``-`` for
    an absent allele, is not a formula.

    Parameters
    ----------
    variants : VariantTable
        Variants of the release.
    phenotypes, covariates : sequence of str
        Names of the columns.

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
        for text in texts:
            if text.startswith(_FIRST_CHARACTERS) and len(text) > 1:
                raise InputError(
                    f"a {what} begins with =, +, - or @, which spreadsheets execute as a formula",
                    where="release",
                    value=repr(text),
                    remedy=remedy,
                )
