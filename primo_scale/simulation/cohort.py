"""A simulated cohort: a tiled public panel, traits with known effects, and the files they go to.

All files are streamed, and a file gets its final name only when it is complete.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from primo_scale.errors import InputError
from primo_scale.genotypes.bed import GenotypeSlab, open_fileset, write_bed, write_bim, write_rows
from primo_scale.genotypes.source import SourceFiles
from primo_scale.genotypes.tables import LARGEST_POSITION, VariantTable
from primo_scale.interruption import check
from primo_scale.kernels.compiling import compiled, inlined
from primo_scale.kernels.packed import MISSING, decode, packed_width
from primo_scale.machine import in_threads, usable_cpus
from primo_scale.storage.files import text_published_at_end

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

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
    def a1_frequency(self) -> Float64:
        """Frequency of A1, shape (variants,); 0 for a variant without any call."""
        called = (self.codes != 1).sum(axis=1)
        copies = np.nan_to_num(A1_COPIES)[self.codes].sum(axis=1)
        return np.asarray(copies / np.maximum(2 * called, 1))


def read_panel(prefix: str) -> ReferencePanel:
    """Read a whole PLINK 1 fileset into memory."""
    fileset = open_fileset(Path(prefix), SourceFiles((Path(prefix),)))
    n_variants, n_members = len(fileset.variants), len(fileset.samples)
    packed = fileset.read(np.arange(n_variants), np.arange(n_members))
    raw_values = np.tile(np.arange(4, dtype=np.int8), (n_variants, 1))
    return ReferencePanel(fileset.variants, decode(packed, raw_values, n_members).view(np.uint8))


def lay_out_sites(
    panel: ReferencePanel, n_variants: int
) -> tuple[VariantTable, npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
    """Take the panel's first variants, or tile the panel if more variants are requested.

    Return the variants, the row of the panel that each one copies, and which are the first of a
    chromosome or of a copy of the panel: LD does not cross these.

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
    return variants, row.astype(np.int32), starts | (row == 0)


def _renamed(variants: VariantTable, tile: Int64) -> VariantTable:
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

    variant: Int64
    trait: Int64
    a1_frequency: Float64
    beta: Float64

    def scores(self) -> GenotypeScores:
        """Return the contribution of each genotype to the genetic value; a missing call adds 0."""
        centred = A1_COPIES - 2 * self.a1_frequency[:, None]
        return self.variant, self.trait, np.nan_to_num(centred) * self.beta[:, None]


PeopleSlab = tuple[range, Int64, Int64, Float64, Float64]
"""Indices of consecutive people, their sex, 1 for male and 2 for female, their age in years, their
genetic values g, and their traits, y or 0 and 1, both of shape (people, traits)."""


def draw_effects(mosaic: Mosaic, a1_frequency: Float64, model: TraitModel, *, seed: int) -> Effects:
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
        yield people, sex, age, genetic, trait


_COHORT = "SIM"
_READABLE = 0o644  # by every user: the simulated people are not real
_TRAIT_BOUND = 5  # standard deviations of a trait whose mean is 0


def write_genotypes(
    prefix: str, slabs: Iterable[GenotypeSlab], variants: VariantTable, n_people: int
) -> None:
    """Write the genotypes, from slabs that cover all of them, and the variant table."""
    write_bed(Path(f"{prefix}.bed"), slabs, (len(variants), n_people), mode=_READABLE)
    write_bim(Path(f"{prefix}.bim"), variants, mode=_READABLE)


def write_people(prefix: str, slabs: Iterable[PeopleSlab], model: TraitModel, seed: int) -> None:
    """Write the sample table, the covariates and, if the model has any, the phenotypes.

    Person i of the cohort with seed 1 has FID and IID ``SIM1_i``, counting from 1.
    """
    with ExitStack() as files:
        fam, covar = (
            files.enter_context(text_published_at_end(Path(f"{prefix}{suffix}"), mode=_READABLE))
            for suffix in (".fam", ".covar.tsv")
        )
        covar.write("FID\tIID\tage\tsex\n")
        pheno = None
        if model.names:
            path = Path(f"{prefix}.pheno.tsv")
            pheno = files.enter_context(text_published_at_end(path, mode=_READABLE))
            pheno.write("\t".join(("FID", "IID", *model.names)) + "\n")
        for people, sexes, ages, _, traits in slabs:
            names = [f"{_COHORT}{seed}_{i + 1}" for i in people]
            identities = [f"{name}\t{name}" for name in names]
            for identity, sex, age in zip(identities, sexes, ages, strict=True):
                fam.write(f"{identity}\t0\t0\t{sex}\t-9\n")
                covar.write(f"{identity}\t{age}\t{sex - 1}\n")
            if pheno is not None:
                values = "\t%.6g" * len(model.names) + "\n"
                for identity, row in zip(identities, traits, strict=True):
                    pheno.write(identity + values % tuple(row))


def write_bounds(prefix: str, model: TraitModel) -> None:
    """Write the public bounds of phenotypes and covariates, from the model, not the cohort."""
    header = ("name", "lower", "upper", "mean", "sd", "type")
    age = ("age", AGE_YOUNGEST, AGE_OLDEST, AGE_MEAN, f"{AGE_SD:.6g}", "NA")
    sex = ("sex", 0, _FEMALE - _MALE, 0.5, 0.5, "NA")
    write_rows(Path(f"{prefix}.covar-bounds.tsv"), (header, age, sex), mode=_READABLE)
    if not model.names:
        return
    bound = _TRAIT_BOUND
    names = model.names[: model.n_quantitative]
    rows = [header, *((name, -bound, bound, 0, 1, "quantitative") for name in names)]
    if model.prevalence is not None:
        sd = (model.prevalence * (1 - model.prevalence)) ** 0.5
        rows.append((model.names[-1], 0, 1, model.prevalence, f"{sd:.6g}", "binary"))
    write_rows(Path(f"{prefix}.pheno-bounds.tsv"), rows, mode=_READABLE)


def write_effects(prefix: str, effects: Effects, variants: VariantTable, model: TraitModel) -> None:
    """Write the true effects: trait, variant, A1, its panel frequency, and effect per copy."""
    columns = (
        np.array(model.names)[effects.trait],
        variants.identifier[effects.variant],
        variants.allele1[effects.variant],
        [f"{frequency:.6g}" for frequency in effects.a1_frequency],
        [f"{beta:.6g}" for beta in effects.beta],
    )
    header = ("name", "ID", "effect_allele", "a1_frequency", "beta")
    write_rows(Path(f"{prefix}.effects.tsv"), (header, *zip(*columns, strict=True)), mode=_READABLE)


def simulate(
    bfile: str,
    out: str,
    samples: int,
    seed: int,
    *,
    variants: int | None = None,
    mean_segment: float = 200,
    missing: float = 0,
    phenotypes: int = 0,
    prevalence: float | None = None,
    heritability: float = 0.3,
    causal_fraction: float = 0.01,
    effects_seed: int = 0,
) -> int:
    """Write the files of a cohort and return its number of variants.

    The parameters are those of `primo_scale.run.options.SimulationRequest`.
    """
    fam = Path(f"{out}.fam")
    if fam.is_file() and not fam.read_bytes().startswith(_COHORT.encode()):
        raise InputError(
            "is not of a simulated cohort and would be overwritten",
            where=fam,
            remedy="Choose another --out",
        )
    panel = read_panel(bfile)
    table, panel_row, starts = lay_out_sites(panel, variants or len(panel.variants))
    mosaic = Mosaic(panel.codes, panel_row, starts, mean_segment, missing, seed)
    model = TraitModel(phenotypes, prevalence, heritability, causal_fraction)
    write_genotypes(out, genotype_slabs(mosaic, samples), table, samples)
    effects = None
    if model.names:
        effects = draw_effects(mosaic, panel.a1_frequency[panel_row], model, seed=effects_seed)
        write_effects(out, effects, table, model)
    write_bounds(out, model)
    write_people(out, simulate_people(mosaic, samples, model, effects), model, seed)
    return mosaic.n_variants


SLAB_BYTES = 16 << 20
"""Size of the packed genotypes in memory at a time, in bytes."""

PEOPLE_PER_STRIPE = 1 << 20
"""Number of people whose state is in memory: 28 MiB, and 256 KiB per variant in a .bed file.

It is a multiple of 4.
"""

_CACHED_SUMS = 1 << 16  # sums of one task, which stay in a core's cache
_LEAST_SCORED = 64  # people of one task, however many scores they have
_PEOPLE_PER_TASK = 4096  # their state stays in a core's cache during the loop over variants
_LONGEST_RUN = 1e9  # a position plus a run is within int32
_NEVER = np.iinfo(np.int32).max

# SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).
_WEYL = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_MISSING_CALLS = np.uint64(0xD1B54A32D192ED03)  # separates their streams from those of segments


@dataclass(frozen=True, eq=False)
class Mosaic:
    """Population of mosaics with d variants."""

    # Raw PLINK values (0 for two copies of A1, 1 missing, 2 for one copy, 3 for no copy), with a
    # row for each variant and a column for each member of the panel.
    codes: npt.NDArray[np.uint8]
    panel_row: npt.NDArray[np.int32]  # row of `codes` that each variant copies, shape (d,)
    # Whether every person starts a new segment at the variant; True for the first. Shape (d,).
    chromosome_starts: npt.NDArray[np.bool_]
    mean_segment: float  # mean length of a segment in variants, at least 1
    # Share of calls that become missing in addition to those of the panel, in [0, 1).
    missing_rate: float
    seed: int  # from 0 to 2**64 - 1

    @property
    def n_variants(self) -> int:
        """Number of variants d."""
        return len(self.panel_row)


GenotypeScores = tuple[Int64, Int64, Float64]
"""Weighted sums over variants, as e sparse entries (variant, score, value) sorted by variant.

Entry k adds ``value[k, g]`` to the sum ``score[k]`` if the raw PLINK value of the genotype at
``variant[k]`` is g; `value` has shape (e, 4)."""


def genotype_slabs(mosaic: Mosaic, n_people: int) -> Iterator[GenotypeSlab]:
    """Generate people 0 to ``n_people - 1`` of the seed, stripe by stripe, in constant memory.

    All variants of one stripe of people come before those of the next, and a slab is overwritten by
    the next one. A slab has at least one variant.
    """
    scales = _log_scale(1 / mosaic.mean_segment), _log_scale(mosaic.missing_rate)
    for first_person in range(0, n_people, PEOPLE_PER_STRIPE):
        people = range(first_person, min(first_person + PEOPLE_PER_STRIPE, n_people))
        runs = [
            _start_people(mosaic, people[first : first + _PEOPLE_PER_TASK])
            for first in range(0, len(people), _PEOPLE_PER_TASK)
        ]
        width, step = packed_width(len(people)), packed_width(_PEOPLE_PER_TASK)
        buffer = np.empty((max(1, SLAB_BYTES // width), width), dtype=np.uint8)
        with ThreadPoolExecutor(usable_cpus()) as threads:
            for first in range(0, mosaic.n_variants, len(buffer)):
                check()
                variants = slice(first, first + len(buffer))
                starts = mosaic.chromosome_starts[variants]
                slab = first, mosaic.panel_row[variants], starts
                packed = buffer[: len(starts)]
                parts = [packed[:, start : start + step] for start in range(0, width, step)]
                list(threads.map(partial(_fill, mosaic.codes, slab, scales), runs, parts))
                yield first, first_person, packed


def score_people(mosaic: Mosaic, people: range, scores: GenotypeScores, n_scores: int) -> Float64:
    """Sum `scores` over the genotypes of some people, before calls become missing.

    The result has shape (len(people), n_scores). Sums are added in variant order, so that the
    values of a person do not depend on `people`.
    """
    ends = np.append(np.flatnonzero(mosaic.chromosome_starts)[1:], mosaic.n_variants)
    panel, scale = (mosaic.codes, mosaic.panel_row), _log_scale(1 / mosaic.mean_segment)
    sums = np.empty((len(people), n_scores))
    step = max(_LEAST_SCORED, _CACHED_SUMS // max(1, n_scores))

    def score(first: int) -> None:
        """Sum the scores of some people, whose state stays in the cache."""
        few = people[first : first + step]
        found = np.zeros((n_scores, len(few)))
        member, reached = np.zeros(len(few), np.int32), np.zeros(len(few), np.int64)
        genotypes, streams = np.empty(len(few), np.uint8), _person_streams(mosaic.seed, few)
        people_now = member, reached, genotypes, streams
        _add_scores(panel, ends, scale, people_now, scores, found)
        sums[first : first + step] = found.T

    in_threads(score, range(0, len(people), step), usable_cpus())
    return sums


def population_variance(mosaic: Mosaic, scores: GenotypeScores) -> float:
    """Return the exact population variance of the sum of all entries of `scores`.

    All entries must belong to one sum, and their values must average zero over the panel. With c_e
    the values of entry e over the panel members and rho = 1 - 1 / mean_segment, the variance is the
    mean over members of ``sum_e c_e (c_e + 2 s_e)``. Here ``s_e = rho^gap (s_{e-1} + c_{e-1})``
    accumulates the earlier entries of the chromosome, each weighted by the probability that it lies
    in the same segment.
    """
    rho, (variants, _, values) = 1 - 1 / mosaic.mean_segment, scores
    chromosome = np.cumsum(mosaic.chromosome_starts)[variants]
    gaps = np.diff(variants, prepend=0)
    discount = np.where(np.diff(chromosome, prepend=0) == 0, rho**gaps, 0.0)
    total, earlier = 0.0, np.zeros(mosaic.codes.shape[1])
    for variant, value, factor in zip(variants, values, discount, strict=True):
        own = value[mosaic.codes[mosaic.panel_row[variant]]]
        earlier *= factor
        total += float(own @ (own + 2 * earlier))
        earlier += own
    return float(total / mosaic.codes.shape[1])


def _log_scale(chance: float) -> float:
    """Return the factor that turns the logarithm of a uniform number into a waiting time."""
    if chance >= 1:
        return 0.0
    return 1 / math.log1p(-chance) if chance > 0 else -math.inf


def _person_streams(seed: int, people: range) -> npt.NDArray[np.uint64]:
    streams = np.empty(len(people), dtype=np.uint64)
    _key_streams(np.uint64(seed), people.start, streams)
    return streams


def _start_people(mosaic: Mosaic, people: range) -> tuple[npt.NDArray[Any], ...]:
    """Return the state of people before the first variant, 28 bytes a person.

    It is the member, the end of the segment, the next missing call, and the streams of both.
    """
    streams = _person_streams(mosaic.seed, people)
    missing_streams = streams ^ _MISSING_CALLS
    next_missing = np.full(len(people), _NEVER, dtype=np.int32)
    if mosaic.missing_rate > 0:
        _first_missing(missing_streams, _log_scale(mosaic.missing_rate), next_missing)
    nowhere = np.zeros(len(people), dtype=np.int32)
    return nowhere, nowhere.copy(), next_missing, streams, missing_streams


@inlined
def _mixed(state: Any) -> Any:
    state = (state ^ (state >> np.uint64(30))) * _MIX_1
    state = (state ^ (state >> np.uint64(27))) * _MIX_2
    return state ^ (state >> np.uint64(31))


@inlined
def _run_length(bits: Any, scale: Any) -> Any:
    """Turn 64 random bits into a geometric length of at least 1."""
    uniform = (np.float64(bits >> np.uint64(11)) + 0.5) * 2.0**-53
    return np.int32(min(math.log(uniform) * scale, _LONGEST_RUN)) + 1


@inlined
def _new_segment(stream: Any, n_members: Any, scale: Any) -> Any:
    """Draw a panel member and a length; return them with the advanced stream."""
    first = stream + _WEYL
    second = first + _WEYL
    member = ((_mixed(first) >> np.uint64(32)) * np.uint64(n_members)) >> np.uint64(32)
    return np.int32(member), _run_length(_mixed(second), scale), second


@compiled
def _key_streams(seed: Any, first_person: Any, streams: Any) -> None:
    key = _mixed(seed + _WEYL)
    for i in range(streams.size):
        streams[i] = _mixed(key ^ _mixed(np.uint64(first_person + i) + _WEYL))


@compiled
def _first_missing(streams: Any, scale: Any, next_missing: Any) -> None:
    for i in range(streams.size):
        streams[i] += _WEYL
        next_missing[i] = _run_length(_mixed(streams[i]), scale) - 1


@compiled
def _fill(codes: Any, slab: Any, scales: Any, people: Any, packed: Any) -> None:
    """Write the genotypes of some people for a slab, and advance their state to its end."""
    member, segment_end, next_missing, stream, missing_stream = people
    first_variant, panel_row, starts = slab
    n_people, n_members = member.size, codes.shape[1]
    segment_scale, missing_scale = scales
    for v in range(panel_row.size):
        position, row = first_variant + v, codes[panel_row[v]]
        for b in range(packed.shape[1]):
            byte = np.uint8(0)
            for k in range(min(4, n_people - 4 * b)):
                i = 4 * b + k
                if starts[v] or segment_end[i] == position:
                    drawn = _new_segment(stream[i], n_members, segment_scale)
                    member[i], length, stream[i] = drawn
                    segment_end[i] = position + length
                code = row[member[i]]
                if next_missing[i] == position:
                    code = np.uint8(MISSING)
                    missing_stream[i] += _WEYL
                    gap = _run_length(_mixed(missing_stream[i]), missing_scale)
                    next_missing[i] = position + gap
                byte |= np.uint8(code << np.uint8(2 * k))
            packed[v, b] = byte


@compiled
def _add_scores(
    panel: Any, chromosome_ends: Any, scale: Any, people: Any, scores: Any, sums: Any
) -> None:
    """Add the scores of people, shape (scores, people), with segments drawn exactly as in `_fill`.

    `people` are the member, the end and a genotype of each person's current segment, and the
    stream. They are the inner loop, so that their sums and genotypes of one variant stay in the
    cache.
    """
    codes, panel_row = panel
    member, reached, genotypes, streams = people
    variant_of, score_of, value_of = scores
    n_members, n_people, entry = codes.shape[1], streams.size, 0
    for end in chromosome_ends:
        variant = np.int64(-1)
        while variant < end - 1:
            within = entry < variant_of.size and variant_of[entry] < end
            variant = variant_of[entry] if within else end - 1
            row = codes[panel_row[variant]]
            for i in range(n_people):
                while reached[i] <= variant:
                    member[i], length, streams[i] = _new_segment(streams[i], n_members, scale)
                    reached[i] = min(reached[i] + length, end)
                genotypes[i] = row[member[i]]
            while entry < variant_of.size and variant_of[entry] == variant:
                total, value = sums[score_of[entry]], value_of[entry]
                first, second, third, fourth = value[0], value[1], value[2], value[3]
                for i in range(n_people):  # a choice among numbers in registers is vectorised
                    g = genotypes[i]
                    low, high = first if g == 0 else second, third if g == 2 else fourth
                    total[i] += low if g < 2 else high
                entry += 1
