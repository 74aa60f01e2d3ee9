"""A simulated cohort: a tiled public panel, traits with known effects, and the files they go to.

All files are streamed, and a file gets its final name only when it is complete.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from primo_scale.errors import InputError
from primo_scale.genotypes.bed import GenotypeSlab, open_fileset, write_bed, write_bim, write_rows
from primo_scale.genotypes.source import SourceFiles
from primo_scale.genotypes.tables import LARGEST_POSITION, VariantTable
from primo_scale.kernels.packed import decode
from primo_scale.simulation.mosaic import (
    GenotypeScores,
    Mosaic,
    genotype_slabs,
    population_variance,
    score_people,
)
from primo_scale.storage.files import text_published_at_end

A1_COPIES = np.array([2.0, np.nan, 1.0, 0.0])
"""Copies of A1 by raw PLINK value; nan for a missing call."""

_AUTOSOMES = 22
_MALE, _FEMALE = 1, 2  # as in .fam files
_GAP_BETWEEN_TILES = 1_000  # base pairs


@dataclass(frozen=True, eq=False)
class ReferencePanel:
    """Genotypes of real people, small enough for memory.

    `codes`, shape (variants, members), holds raw PLINK values: 0 for two copies of A1, 1 for a
    missing call, 2 for one copy, 3 for no copy.
    """

    variants: VariantTable
    codes: npt.NDArray[np.uint8]

    @property
    def a1_frequency(self) -> npt.NDArray[np.float64]:
        """Frequency of A1, shape (variants,); 0 for a variant without any call."""
        called = (self.codes != 1).sum(axis=1)
        copies = np.nan_to_num(A1_COPIES)[self.codes].sum(axis=1)
        return np.asarray(copies / np.maximum(2 * called, 1))


@dataclass(frozen=True, eq=False)
class Sites:
    """Variants of a simulated cohort, and the row of the panel that each one copies.

    `chromosome_starts` marks the first variant of each chromosome and of each copy of the panel. LD
    does not cross such a variant.
    """

    variants: VariantTable
    panel_row: npt.NDArray[np.int32]
    chromosome_starts: npt.NDArray[np.bool_]


def read_panel(prefix: str) -> ReferencePanel:
    """Read a whole PLINK 1 fileset into memory."""
    fileset = open_fileset(Path(prefix), SourceFiles((Path(prefix),)))
    n_variants, n_members = len(fileset.variants), len(fileset.samples)
    packed = fileset.read(np.arange(n_variants), np.arange(n_members))
    raw_values = np.tile(np.arange(4, dtype=np.int8), (n_variants, 1))
    return ReferencePanel(fileset.variants, decode(packed, raw_values, n_members).view(np.uint8))


def lay_out_sites(panel: ReferencePanel, n_variants: int) -> Sites:
    """Take the panel's first variants, or tile the panel if more variants are requested.

    Variants of a tile are renamed (``rs123`` becomes ``rs123_2`` in the second tile). Tiles are
    distributed in order over chromosomes 1 to 22, each after the end of the previous tile.
    """
    size = len(panel.variants)
    index = np.arange(n_variants)
    row, tile = index % size, index // size
    variants = panel.variants.select(row)
    starts = np.append(True, variants.chromosome[1:] != variants.chromosome[:-1])
    if n_variants > size:
        if len(set(panel.variants.chromosome)) > 1:
            raise InputError(
                "a panel of several chromosomes cannot be tiled",
                value=f"{n_variants} variants",
                limit=f"{size} variants",
                remedy="Ask for fewer variants, or give one chromosome",
            )
        variants = _renamed(variants, tile)
    return Sites(variants, row.astype(np.int32), starts | (row == 0))


def _renamed(variants: VariantTable, tile: npt.NDArray[np.int64]) -> VariantTable:
    n_tiles = int(tile[-1]) + 1
    chromosome = tile * _AUTOSOMES // n_tiles + 1
    first_tile = -(-(chromosome - 1) * n_tiles // _AUTOSOMES)
    span = int(variants.position.max()) + _GAP_BETWEEN_TILES
    position = variants.position + (tile - first_tile) * span
    if position.max() > LARGEST_POSITION:
        raise InputError(
            "tiling the panel leads to positions above PLINK's limit",
            value=f"{len(variants)} variants",
            limit=f"{len(variants) * LARGEST_POSITION // int(position.max())} variants",
            remedy="Ask for fewer variants, or give a panel with more",
        )
    suffix = np.array(["", *(f"_{number}" for number in range(2, n_tiles + 1))], dtype=object)
    return replace(
        variants,
        chromosome=chromosome.astype(str).astype(object),
        identifier=variants.identifier + suffix[tile],
        position=position,
    )


AGE_VARIANCE = 0.05
"""Share of a trait's variance that age explains."""

AGE_YOUNGEST, AGE_OLDEST = 40, 69
"""Range of ages in whole years, with a uniform distribution, as at recruitment to UK Biobank."""

AGE_MEAN = (AGE_YOUNGEST + AGE_OLDEST) / 2
AGE_SD = math.sqrt(((AGE_OLDEST - AGE_YOUNGEST + 1) ** 2 - 1) / 12)

_PEOPLE_PER_SLAB = 8192


@dataclass(frozen=True)
class TraitModel:
    """Parameters of the simulated traits: quantitative ones QT1, QT2, ..., and the 0/1 trait CASE.

    There is no 0/1 trait if its `prevalence` is None. `heritability`, in [0, 0.95], is the variance
    of g of each trait or liability. `causal_fraction`, in (0, 1], is the share of polymorphic
    variants with an effect; at least one variant has one.
    """

    n_quantitative: int
    prevalence: float | None
    heritability: float
    causal_fraction: float

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the traits, the 0/1 trait last."""
        quantitative = tuple(f"QT{k + 1}" for k in range(self.n_quantitative))
        return quantitative if self.prevalence is None else (*quantitative, "CASE")


@dataclass(frozen=True, eq=False)
class Effects:
    """True effects: one entry for each causal variant of each trait, sorted by variant.

    `variant` and `trait` are indices, `a1_frequency` is the frequency of A1 in the panel, and
    `beta` the effect per copy of A1, in standard deviations of the trait.
    """

    variant: npt.NDArray[np.int64]
    trait: npt.NDArray[np.int64]
    a1_frequency: npt.NDArray[np.float64]
    beta: npt.NDArray[np.float64]

    def scores(self) -> GenotypeScores:
        """Return the contribution of each genotype to the genetic value; a missing call adds 0."""
        centred = A1_COPIES - 2 * self.a1_frequency[:, None]
        return GenotypeScores(self.variant, self.trait, np.nan_to_num(centred) * self.beta[:, None])


@dataclass(frozen=True, eq=False)
class PeopleSlab:
    """Consecutive people of a cohort, with their indices.

    `sex` is 1 for male and 2 for female, and `age` is in years. `genetic_value` and `trait`, both
    of shape (people, traits), hold g, and y or 0 and 1.
    """

    people: range
    sex: npt.NDArray[np.int64]
    age: npt.NDArray[np.int64]
    genetic_value: npt.NDArray[np.float64]
    trait: npt.NDArray[np.float64]


def draw_effects(
    mosaic: Mosaic, a1_frequency: npt.NDArray[np.float64], model: TraitModel, *, seed: int
) -> Effects:
    """Draw the causal variants and the effects of every trait.

    Effects are Gaussian on genotypes standardised by the panel's frequencies `a1_frequency`, shape
    (variants,). Two cohorts of one population have the same effects if `model` and `seed` are the
    same; the seed of `mosaic` is not used.
    """
    rng = np.random.default_rng(seed)
    spread = np.sqrt(2 * a1_frequency * (1 - a1_frequency))
    polymorphic = np.flatnonzero(spread)
    if not polymorphic.size:
        raise InputError(
            "the panel has no polymorphic variant, so nothing can be heritable",
            value=f"{len(spread)} monomorphic variants",
            remedy="Give a panel with variation, or simulate no traits",
        )
    n_causal = max(1, round(model.causal_fraction * len(polymorphic)))
    drawn = []
    for trait in range(len(model.names)):
        variant = np.sort(rng.choice(polymorphic, n_causal, replace=False))
        frequency = a1_frequency[variant]
        beta = rng.standard_normal(n_causal) / spread[variant]
        unscaled = Effects(variant, np.full(n_causal, trait), frequency, beta)
        scale = math.sqrt(model.heritability / population_variance(mosaic, unscaled.scores()))
        drawn.append((variant, unscaled.trait, frequency, beta * scale))
    variant, trait_index, frequency, beta = map(np.concatenate, zip(*drawn, strict=True))
    order = np.argsort(variant, kind="stable")
    return Effects(variant[order], trait_index[order], frequency[order], beta[order])


def simulate_people(
    mosaic: Mosaic, n_people: int, model: TraitModel, effects: Effects | None
) -> Iterator[PeopleSlab]:
    """Draw sex, age and traits of people 0 to ``n_people - 1`` of the mosaic's seed, in order.

    `effects` is None if the model has no traits.
    """
    seeds = np.random.SeedSequence(mosaic.seed).spawn(3)
    sexes, ages, residuals = map(np.random.default_rng, seeds)
    residual_sd = math.sqrt(1 - AGE_VARIANCE - model.heritability)
    n_traits = len(model.names)
    for first in range(0, n_people, _PEOPLE_PER_SLAB):
        people = range(first, min(first + _PEOPLE_PER_SLAB, n_people))
        sex = sexes.integers(_MALE, _FEMALE, len(people), endpoint=True)
        age = ages.integers(AGE_YOUNGEST, AGE_OLDEST, len(people), endpoint=True)
        genetic = np.zeros((len(people), n_traits))
        if effects is not None:
            genetic = score_people(mosaic, people, effects.scores(), n_traits)
        age_effect = math.sqrt(AGE_VARIANCE) * (age - AGE_MEAN) / AGE_SD
        noise = residual_sd * residuals.standard_normal(genetic.shape)
        trait = genetic + age_effect[:, None] + noise
        if model.prevalence is not None:
            trait[:, -1] = trait[:, -1] > NormalDist().inv_cdf(1 - model.prevalence)
        yield PeopleSlab(people, sex, age, genetic, trait)


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
        sex = ("sex", 0, _FEMALE - _MALE, 0.5, 0.5, "NA")
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


@dataclass(frozen=True)
class SimulatedCohort:
    """Parameters of a simulated cohort."""

    bfile: str  # prefix of the PLINK 1 fileset of the panel
    out: str  # prefix of the files to write
    samples: int
    seed: int  # of the people
    # More variants than the panel has tile it under new IDs. None stands for those of the panel.
    variants: int | None = None
    # Mean number of neighbouring variants copied from one member of the panel.
    mean_segment: float = 200
    missing: float = 0  # share of genotype calls
    phenotypes: int = 0  # quantitative traits, of mean 0 and variance 1
    # Share of cases of a further binary trait; None stands for no such trait.
    prevalence: float | None = None
    # Heritability of every trait, of the binary one on the liability scale.
    heritability: float = 0.3
    causal_fraction: float = 0.01  # share of polymorphic variants that have an effect
    # Seed of the effects; cohorts that share it, and the trait options, share their effects.
    effects_seed: int = 0


def simulate(cohort: SimulatedCohort) -> int:
    """Write the files of a cohort and return its number of variants."""
    files = CohortFiles(cohort.out)
    files.refuse_others()
    panel = read_panel(cohort.bfile)
    sites = lay_out_sites(panel, cohort.variants or len(panel.variants))
    mosaic = Mosaic(
        panel.codes, sites.panel_row, sites.chromosome_starts,
        cohort.mean_segment, cohort.missing, cohort.seed,
    )  # fmt: skip
    model = TraitModel(
        cohort.phenotypes, cohort.prevalence, cohort.heritability, cohort.causal_fraction
    )
    n_people = cohort.samples
    files.write_genotypes(genotype_slabs(mosaic, n_people), sites.variants, n_people)
    effects = None
    if model.names:
        frequency = panel.a1_frequency[sites.panel_row]
        effects = draw_effects(mosaic, frequency, model, seed=cohort.effects_seed)
        files.write_effects(effects, sites.variants, model)
    files.write_bounds(model)
    files.write_people(simulate_people(mosaic, n_people, model, effects), model, cohort.seed)
    return mosaic.n_variants
