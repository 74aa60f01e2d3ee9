"""A simulated cohort on disk: a PLINK 1 fileset, phenotypes, covariates, bounds and the truth.

All files are streamed, and a file gets its final name only when it is complete.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from primo_scale.errors import InputError
from primo_scale.genotypes.tables import FEMALE, VariantTable
from primo_scale.genotypes.write_fileset import GenotypeSlab, write_bed, write_bim, write_rows
from primo_scale.simulation.traits import (
    AGE_MEAN,
    AGE_OLDEST,
    AGE_SD,
    AGE_YOUNGEST,
    Effects,
    PeopleSlab,
    TraitModel,
)
from primo_scale.storage.files import text_published_at_end

_COHORT = "SIM"
_READABLE = 0o644  # by every user: the simulated people are not real
_TRAIT_BOUND = 5  # standard deviations of a trait whose mean is 0


@dataclass(frozen=True)
class CohortFiles:
    """Files of a simulated cohort, whose paths begin with `prefix`: ``PREFIX.bed`` and so on."""

    prefix: str

    def path(self, suffix: str) -> Path:
        """Return the path of the file with a suffix, such as ``.bed`` or ``.pheno.tsv``."""
        return Path(f"{self.prefix}{suffix}")

    def refuse_others(self) -> None:
        """Refuse to overwrite the files of people who are not simulated."""
        path = self.path(".fam")
        if path.is_file() and not path.read_bytes().startswith(_COHORT.encode()):
            raise InputError(
                "is not of a simulated cohort and would be overwritten",
                where=path,
                remedy="Choose another --out",
            )

    def write_genotypes(
        self, slabs: Iterable[GenotypeSlab], variants: VariantTable, n_people: int
    ) -> None:
        """Write the genotypes, from slabs that cover all of them, and the variant table."""
        write_bed(self.path(".bed"), slabs, (len(variants), n_people), mode=_READABLE)
        write_bim(self.path(".bim"), variants, mode=_READABLE)

    def write_people(self, slabs: Iterable[PeopleSlab], model: TraitModel, seed: int) -> None:
        """Write the sample table, the covariates and, if the model has any, the phenotypes.

        Person i of the cohort with seed 1 has FID and IID ``SIM1_i``, counting from 1.
        """
        with ExitStack() as files:
            fam, covar = (
                files.enter_context(text_published_at_end(self.path(suffix), mode=_READABLE))
                for suffix in (".fam", ".covar.tsv")
            )
            covar.write("FID\tIID\tage\tsex\n")
            pheno = None
            if model.names:
                path = self.path(".pheno.tsv")
                pheno = files.enter_context(text_published_at_end(path, mode=_READABLE))
                pheno.write("\t".join(("FID", "IID", *model.names)) + "\n")
            for slab in slabs:
                names = [f"{_COHORT}{seed}_{i + 1}" for i in slab.people]
                identities = [f"{name}\t{name}" for name in names]
                for identity, sex, age in zip(identities, slab.sex, slab.age, strict=True):
                    fam.write(f"{identity}\t0\t0\t{sex}\t-9\n")
                    covar.write(f"{identity}\t{age}\t{sex - 1}\n")
                if pheno is not None:
                    values = "\t%.6g" * len(model.names) + "\n"
                    for identity, row in zip(identities, slab.trait, strict=True):
                        pheno.write(identity + values % tuple(row))

    def write_bounds(self, model: TraitModel) -> None:
        """Write the public bounds of phenotypes and covariates, from the model, not the cohort."""
        header = ("name", "lower", "upper", "mean", "sd", "type")
        age = ("age", AGE_YOUNGEST, AGE_OLDEST, AGE_MEAN, f"{AGE_SD:.6g}", "NA")
        sex = ("sex", 0, FEMALE - 1, 0.5, 0.5, "NA")
        write_rows(self.path(".covar-bounds.tsv"), (header, age, sex), mode=_READABLE)
        if not model.names:
            return
        bound = _TRAIT_BOUND
        names = model.names[: model.n_quantitative]
        rows = [header, *((name, -bound, bound, 0, 1, "quantitative") for name in names)]
        if model.prevalence is not None:
            sd = (model.prevalence * (1 - model.prevalence)) ** 0.5
            rows.append((model.names[-1], 0, 1, model.prevalence, f"{sd:.6g}", "binary"))
        write_rows(self.path(".pheno-bounds.tsv"), rows, mode=_READABLE)

    def write_effects(self, effects: Effects, variants: VariantTable, model: TraitModel) -> None:
        """Write the true effects: trait, variant, A1, its panel frequency, and effect per copy."""
        columns = (
            np.array(model.names)[effects.trait],
            variants.identifier[effects.variant],
            variants.allele1[effects.variant],
            [f"{frequency:.6g}" for frequency in effects.a1_frequency],
            [f"{beta:.6g}" for beta in effects.beta],
        )
        header = ("name", "ID", "effect_allele", "a1_frequency", "beta")
        write_rows(self.path(".effects.tsv"), (header, *zip(*columns, strict=True)), mode=_READABLE)
