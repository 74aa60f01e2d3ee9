"""A simulated cohort on disk: a PLINK 1 fileset, phenotypes, covariates, bounds and the truth.

All files are streamed, and a file gets its final name only when it is complete.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np

from primo_scale.genotypes.tables import FEMALE, VariantTable
from primo_scale.kernels.packed import packed_width
from primo_scale.machine import refuse_full_disk
from primo_scale.simulation.mosaic import GenotypeSlab
from primo_scale.simulation.traits import (
    AGE_MEAN,
    AGE_OLDEST,
    AGE_SD,
    AGE_YOUNGEST,
    Effects,
    PeopleSlab,
    TraitModel,
)
from primo_scale.storage.files import disk_errors_explained, file_published_at_end

_BED_HEADER = b"\x6c\x1b\x01"  # magic, variant-major
_READABLE = 0o644  # by every user: the simulated people are not real
_TRAIT_BOUND = 5  # standard deviations of a trait whose mean is 0


@dataclass(frozen=True)
class Fileset:
    """Files of a simulated cohort, whose paths begin with `prefix`: ``PREFIX.bed`` and so on."""

    prefix: str

    def path(self, suffix: str) -> Path:
        """Return the path of the file with a suffix, such as ``.bed`` or ``.pheno.tsv``."""
        return Path(f"{self.prefix}{suffix}")

    def write_bed(self, slabs: Iterable[GenotypeSlab], n_variants: int, n_people: int) -> None:
        """Write the genotypes, from slabs that together cover every variant of every person.

        Raises
        ------
        ResourceError
            The disk has too little free space. This is checked before the first write.
        """
        path, width = self.path(".bed"), packed_width(n_people)
        with disk_errors_explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        refuse_full_disk(
            path,
            len(_BED_HEADER) + n_variants * width,
            what="the genotypes",
            remedy="Simulate fewer people or variants, or choose another disk",
        )
        with file_published_at_end(path, mode=_READABLE) as file:
            file.write(_BED_HEADER)
            for slab in slabs:
                of_person = packed_width(slab.first_person)
                start = len(_BED_HEADER) + slab.first_variant * width + of_person
                whole_rows = slab.packed.shape[1] == width
                for number, part in enumerate([slab.packed] if whole_rows else slab.packed):
                    file.seek(start + number * width)
                    file.write(part.data)

    def write_bim(self, variants: VariantTable) -> None:
        """Write the variant table."""
        columns = (
            variants.chromosome,
            variants.identifier,
            [f"{distance:g}" for distance in variants.centimorgan],
            variants.position,
            variants.allele1,
            variants.allele2,
        )
        _write_rows(self.path(".bim"), zip(*columns, strict=True))

    def write_people(self, slabs: Iterable[PeopleSlab], model: TraitModel, cohort: str) -> None:
        """Write the sample table, the covariates and, if the model has any, the phenotypes.

        Person i of cohort ``SIM1`` has FID and IID ``SIM1_i``, counting from 1.
        """
        with ExitStack() as files:
            fam, covar = (
                files.enter_context(_published_text(self.path(suffix)))
                for suffix in (".fam", ".covar.tsv")
            )
            covar.write("FID\tIID\tage\tsex\n")
            pheno = None
            if model.names:
                path = self.path(".pheno.tsv")
                pheno = files.enter_context(_published_text(path))
                pheno.write("\t".join(("FID", "IID", *model.names)) + "\n")
            for slab in slabs:
                identities = [f"{cohort}_{i + 1}\t{cohort}_{i + 1}" for i in slab.people]
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
        _write_rows(self.path(".covar-bounds.tsv"), (header, age, sex))
        if not model.names:
            return
        bound = _TRAIT_BOUND
        names = model.names[: model.n_quantitative]
        rows = [header, *((name, -bound, bound, 0, 1, "quantitative") for name in names)]
        if model.prevalence is not None:
            sd = (model.prevalence * (1 - model.prevalence)) ** 0.5
            rows.append((model.names[-1], 0, 1, model.prevalence, f"{sd:.6g}", "binary"))
        _write_rows(self.path(".pheno-bounds.tsv"), rows)

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
        _write_rows(self.path(".effects.tsv"), (header, *zip(*columns, strict=True)))


def _write_rows(path: Path, rows: Iterable[Iterable[object]]) -> None:
    """Write a table with tabs between the cells."""
    with _published_text(path) as file:
        file.writelines("\t".join(map(str, row)) + "\n" for row in rows)


@contextmanager
def _published_text(path: Path) -> Iterator[TextIO]:
    """Yield a text file, which gets its final name when the block ends without an error."""
    with file_published_at_end(path, mode=_READABLE) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="\n")
        yield text
        text.detach()
