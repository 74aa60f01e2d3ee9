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

from primo_scale.genotypes.tables import VariantTable
from primo_scale.kernels.packed import packed_width
from primo_scale.machine import refuse_full_disk
from primo_scale.simulation.mosaic import GenotypeSlab
from primo_scale.simulation.traits import (
    AGE_MEAN,
    AGE_OLDEST,
    AGE_SD,
    AGE_YOUNGEST,
    FEMALE,
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
    """Files of a simulated cohort: ``PREFIX.bed`` and the files next to it.

    Attributes
    ----------
    prefix : str
        Common path prefix of the files.
    """

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
        path = self.path(".bed")
        needed = len(_BED_HEADER) + n_variants * packed_width(n_people)
        with disk_errors_explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        refuse_full_disk(
            path,
            needed,
            what="the genotypes",
            remedy="Simulate fewer people or variants, or choose another disk",
        )
        width = packed_width(n_people)
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
            variants.centimorgan,
            variants.position,
            variants.allele1,
            variants.allele2,
        )
        with _published_text(self.path(".bim")) as file:
            for row in zip(*columns, strict=True):
                file.write("{}\t{}\t{:g}\t{}\t{}\t{}\n".format(*row))

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
        header = "name\tlower\tupper\tmean\tsd\ttype\n"
        with _published_text(self.path(".covar-bounds.tsv")) as file:
            file.write(header)
            file.write(f"age\t{AGE_YOUNGEST}\t{AGE_OLDEST}\t{AGE_MEAN}\t{AGE_SD:.6g}\tNA\n")
            file.write(f"sex\t0\t{FEMALE - 1}\t0.5\t0.5\tNA\n")
        if not model.names:
            return
        with _published_text(self.path(".pheno-bounds.tsv")) as file:
            file.write(header)
            for name in model.names[: model.n_quantitative]:
                file.write(f"{name}\t{-_TRAIT_BOUND}\t{_TRAIT_BOUND}\t0\t1\tquantitative\n")
            if model.prevalence is not None:
                sd = (model.prevalence * (1 - model.prevalence)) ** 0.5
                file.write(f"{model.names[-1]}\t0\t1\t{model.prevalence}\t{sd:.6g}\tbinary\n")

    def write_effects(self, effects: Effects, variants: VariantTable, model: TraitModel) -> None:
        """Write the true effects: trait, variant, A1, its panel frequency, and effect per copy."""
        columns = (effects.trait, effects.variant, effects.a1_frequency, effects.beta)
        with _published_text(self.path(".effects.tsv")) as file:
            file.write("name\tID\teffect_allele\ta1_frequency\tbeta\n")
            for trait, variant, frequency, beta in zip(*columns, strict=True):
                identifier, allele = variants.identifier[variant], variants.allele1[variant]
                row = (model.names[trait], identifier, allele, f"{frequency:.6g}", f"{beta:.6g}")
                file.write("\t".join(row) + "\n")


@contextmanager
def _published_text(path: Path) -> Iterator[TextIO]:
    """Yield a text file, which gets its final name when the block ends without an error."""
    with file_published_at_end(path, mode=_READABLE) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="\n")
        yield text
        text.detach()
