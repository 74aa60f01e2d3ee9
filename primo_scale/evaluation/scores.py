"""Score weights of a release, weights.tsv.gz or the PGS Catalog, and scores of people by them."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import starmap, takewhile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from primo_scale.errors import InputError
from primo_scale.evaluation.accuracy import Floats
from primo_scale.genotypes import coding
from primo_scale.genotypes.source import SourceFiles, open_source
from primo_scale.genotypes.store import MISSING_DOSAGE, GenotypeStore, PackedBytes, Packing
from primo_scale.genotypes.tables import Index, SampleTable, VariantTable, build_name
from primo_scale.interruption import check
from primo_scale.publication.open_release import TABLE_OPTIONS, Release, open_release
from primo_scale.ranges import pieces, runs_of
from primo_scale.storage.files import refuse_missing_file
from primo_scale.verify.chromosomes import positioned_chromosome
from primo_scale.verify.files import CENTRE_FILE, WEIGHTS_FILE
from primo_scale.verify.formats import NAMED_COLUMNS, WEIGHTS_HEADER
from primo_scale.verify.release import verify
from primo_scale.verify.words import NOT_PRIVATE, NOT_PRIVATE_COLUMN, STAMP_BEGINNING, stamp_column

_ALLELES = ["effect_allele", "other_allele"]
_PLACE = ("chr_name", "chr_position")
_TRAIT, _BUILD, _PGS_ID = "#trait_reported=", "#genome_build=", "#pgs_id="
_WEIGHT_TYPE, _RATIOS = "#weight_type=", ("OR", "HR")
# Columns of the PGS Catalog in which a row is true whose weight is not one per allele.
_MODELS = ("is_dominant", "is_recessive", "is_interaction", "is_haplotype", "is_diplotype")

_HEADERS = (
    f"{' '.join(WEIGHTS_HEADER)} GUARANTEE PHENOTYPE..., or effect_allele, other_allele, "
    "effect_weight and rsID or chr_name and chr_position"
)
_REMEDY = "Give a release directory, its weights.tsv.gz, or a PGS Catalog file of format 2.0"
_SHOWN = 200  # characters of an unknown header


@dataclass(frozen=True, eq=False)
class ScoringFile:
    """Weights of the scores of one release or file."""

    path: Path
    variants: pd.DataFrame  # columns ID, effect_allele, other_allele, one row for each variant
    # Phenotypes that the scores predict, l names; None stands for a score of no known phenotype.
    phenotypes: tuple[str | None, ...]
    per_allele: Floats  # weight of one copy of the effect allele, shape (variants, l)
    by_position: bool = False  # whether the column ID contains CHROMOSOME:POSITION
    build: str | None = None  # genome build of the positions, if the header of the file names it
    pgs_id: str | None = None  # identifier of the score in the header of a PGS Catalog file
    not_private: bool = False  # whether the file carries the stamp of a release without noise
    release: Release | None = None
    # Codes of controls and cases of the binary phenotypes of a release.
    codes: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def weights_path(self) -> Path:
        """File with the weights: `path`, or a file of the release there."""
        return self.path if self.release is None else self.path / WEIGHTS_FILE

    @property
    def centres(self) -> Path | None:
        """Table of the dosages that replace missing genotypes, or None."""
        return None if self.release is None else self.release.directory / CENTRE_FILE


def read_scoring_file(path: Path, wanted: Collection[str] | None) -> ScoringFile:
    """Read the weights of the `wanted` phenotypes, or of all if it is None.

    A directory is a release, which is verified. A PGS Catalog file has one score. It belongs to the
    wanted phenotype that its header reports as the trait, or to none.
    """
    if path.is_dir():
        return _read_release(path, wanted)
    refuse_missing_file(path)
    try:
        comments = _comments(path)
        names = list(pd.read_csv(path, **TABLE_OPTIONS, skiprows=len(comments), nrows=0).columns)
        stamps = NOT_PRIVATE_COLUMN, STAMP_BEGINNING
        is_ours = tuple(names[: len(WEIGHTS_HEADER)]) == WEIGHTS_HEADER
        if is_ours and len(names) > NAMED_COLUMNS and names[NAMED_COLUMNS - 1].startswith(stamps):
            return _read_weights(path, names, wanted)
        by_name = "rsID" in names or {*_PLACE} <= {*names}
        if by_name and {*_ALLELES, "effect_weight"} <= {*names}:
            return _read_catalog(path, names, comments, wanted)
        raise InputError(
            "is no scoring file: its header is unknown",
            where=path,
            value=" ".join(names)[:_SHOWN],
            expected=_HEADERS,
            remedy=_REMEDY,
        )
    except (ValueError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"is no scoring file: {error}", where=path, remedy=_REMEDY) from error


def _read_release(directory: Path, wanted: Collection[str] | None) -> ScoringFile:
    release, verdict = open_release(directory), verify(directory)
    if not verdict.ok:
        problem = verdict.problems[0]
        raise InputError(
            f"the release fails its verification: {problem.check}: {problem.detail}",
            where=directory,
            remedy="Ask its publisher for an intact copy",
        )
    names = [*WEIGHTS_HEADER, stamp_column(release.document), *release.phenotypes]
    file = _read_weights(directory / WEIGHTS_FILE, names, wanted)
    bounds = release.document["public_inputs"]["phenotypes"]
    codes = {p["name"]: (p["lower"], p["upper"]) for p in bounds if p["kind"] == "binary"}
    return replace(file, path=directory, release=release, codes=codes)


def _read_weights(path: Path, columns: Sequence[str], given: Collection[str] | None) -> ScoringFile:
    names = columns[NAMED_COLUMNS:]
    chosen = [name for name in names if given is None or name in given]
    if given is not None and not chosen:
        raise InputError(
            "has no score of a phenotype of --pheno",
            where=path,
            value=", ".join(names)[:80],
            expected=", ".join(given)[:80],
            remedy="Name the columns of --pheno as the phenotypes of the scores",
        )
    table = _read_table(path, ["ID", *_ALLELES, *chosen])
    return ScoringFile(
        path,
        table[["ID", *_ALLELES]],
        tuple(chosen),
        _numbers(table[chosen], path),
        not_private=NOT_PRIVATE_COLUMN in columns[:NAMED_COLUMNS],
    )


def _read_catalog(
    path: Path, names: Collection[str], comments: Sequence[str], wanted: Collection[str] | None
) -> ScoringFile:
    models = [name for name in _MODELS if name in names]
    place = [name for name in ("rsID", *_PLACE) if name in names]
    table = _read_table(path, [*place, *_ALLELES, "effect_weight", *models])
    by_position = "rsID" not in names or bool({*_PLACE} <= {*names} and (table["rsID"] == "").any())
    weights = _numbers(table[["effect_weight"]], path)
    _refuse_other_models(path, table[models], weights, _header_value(comments, _WEIGHT_TYPE))
    if by_position:
        table["ID"] = table["chr_name"].map(positioned_chromosome) + ":" + table["chr_position"]
    else:
        table["ID"] = table["rsID"]
    trait, build, pgs_id = (_header_value(comments, name) for name in (_TRAIT, _BUILD, _PGS_ID))
    phenotype = {name.replace("=", "_"): name for name in wanted or ()}.get(trait)
    return ScoringFile(
        path,
        table[["ID", *_ALLELES]],
        (phenotype,),
        weights,
        by_position,
        build=build_name(build),
        pgs_id=pgs_id or None,
        not_private=any(line.startswith(f"##{NOT_PRIVATE}") for line in comments),
    )


def _refuse_other_models(path: Path, models: pd.DataFrame, weights: Floats, kind: str) -> None:
    """Refuse weights that are not per copy of the effect allele, of any sign."""
    for name in models.columns:
        rows = int(models[name].str.lower().isin(("true", "1")).sum())
        if rows:
            raise InputError(
                "has weights that are not per copy of the effect allele",
                where=path,
                value=f"{name} in {rows} of {len(models)} rows",
                remedy="Give a score of additive weights",
            )
    if kind.upper() in _RATIOS and (weights > 0).all():
        raise InputError(
            "has ratios as weights, all of them above 0",
            where=path,
            value=f"{_WEIGHT_TYPE}{kind}",
            remedy="Give their logarithms",
        )


def _header_value(comments: Sequence[str], name: str) -> str:
    return "".join(line.removeprefix(name).strip() for line in comments if line.startswith(name))


def _read_table(path: Path, columns: list[str]) -> pd.DataFrame:
    """Read columns of a table as text."""
    options = {**TABLE_OPTIONS, "skiprows": len(_comments(path)), "usecols": columns}
    table: pd.DataFrame = pd.read_csv(path, **options, dtype=str)
    return table


def _comments(path: Path) -> list[str]:
    """Return the lines before the header, such as those of a PGS Catalog file."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        return list(takewhile(lambda line: line.startswith("#"), file))


def _numbers(table: pd.DataFrame, path: Path) -> Floats:
    values = table.to_numpy(np.float64)
    bad = int((~np.isfinite(values)).any(axis=1).sum())
    if bad:
        raise InputError(
            f"{bad} of {len(values)} variants have a weight that is no finite number", where=path
        )
    return values


_VARIANTS_PER_READ = 1024  # of hard calls, and a quarter of it of dosages
_PEOPLE_PER_BATCH = 1 << 8  # whose dosages of one read are 2 MiB; a multiple of 4


@dataclass(frozen=True)
class Genotypes:
    """Genotypes of people, read for chunks of variants."""

    samples: SampleTable
    variants: VariantTable
    read: Callable[[Index], PackedBytes]  # of increasing positions of variants
    packing: Packing
    variants_per_read: int


@dataclass(frozen=True, eq=False)
class MatchedWeights:
    """Weights of the variants that the genotypes have, in their order."""

    variants: Index  # increasing positions of m variants in the genotypes
    per_allele1: Floats  # weight of one copy of allele 1, shape (m, l)
    constant: Floats  # score of a person without copies of allele 1, shape (l,)
    centre: Floats  # dosage of allele 1 for a missing genotype; nan: the mean, shape (m,)
    counts: coding.MatchCounts


def open_files(files: SourceFiles) -> Genotypes:
    """Open genotype files of the same people."""
    source = open_source(files)
    everybody, packing = np.arange(len(source.samples)), files.packing

    def read(variants: Index) -> PackedBytes:
        result = np.empty((len(variants), packing.width(len(everybody))), dtype=np.uint8)
        source.read_into(result, variants, everybody)
        return result

    at_a_time = _VARIANTS_PER_READ // packing.width(4)
    return Genotypes(source.samples, source.variants, read, packing, at_a_time)


def people_of_store(
    store: GenotypeStore, samples: slice = slice(None), people: Index | None = None
) -> Genotypes:
    """Return the genotypes of people of a store, of all or at positions in the chunk `samples`."""

    def read(variants: Index) -> PackedBytes:
        first, last = int(variants[0]), int(variants[-1])
        packed = store.read_packed(slice(first, last + 1), samples)
        if len(packed) > len(variants):  # a whole run is not copied
            packed = packed[variants - first]
        return packed if people is None else store.packing.select(packed, people)

    table = store.samples if people is None else store.samples.select(samples.start + people)
    return Genotypes(table, store.variants, read, store.packing, store.chunk_shape[0])


def match_weights(
    file: ScoringFile, variants: VariantTable, *, may_be_wider: bool = False
) -> MatchedWeights:
    """Find the variants of a scoring file by ID and alleles, in either order and on either strand.

    Two variants of one side that match the same variant of the other are refused, and a score of
    which less than 10% match; if it may be wider, less than 10% of it and of the genotypes.
    """
    identifiers = list(variants.identifier)
    if file.by_position:
        places = zip(variants.chromosome, variants.position.tolist(), strict=True)
        identifiers = [f"{positioned_chromosome(name)}:{position}" for name, position in places]
    keys = pd.DataFrame({"ID": identifiers})
    keys = keys.assign(variant=np.arange(len(variants))).query("ID != '.'")
    pairs = file.variants.assign(row=np.arange(len(file.variants))).merge(keys, on="ID")
    here = pairs["variant"]
    found_alleles = zip(pairs["effect_allele"], pairs["other_allele"], strict=True)
    wanted_alleles = zip(variants.allele1[here], variants.allele2[here], strict=True)
    comparisons = map(coding.compare_alleles, found_alleles, wanted_alleles)
    pairs = pairs.assign(found=pd.Series(list(comparisons), dtype=object))
    matched = pairs.dropna(subset="found").sort_values("variant")
    twice = matched[matched["row"].duplicated() | matched["variant"].duplicated()]
    if len(twice):
        raise InputError(
            f"variant {twice['ID'].iloc[0]} has two matches in the genotypes or the file",
            where=file.path,
            remedy="Remove all but one (plink2 --rm-dup)",
        )
    found, rows = matched["variant"].to_numpy(), matched["row"].to_numpy()
    swapped, flipped = np.array([*matched["found"]], dtype=np.bool_).reshape(-1, 2).T
    ambiguous = map(coding.strand_is_unknown, variants.allele1[found], variants.allele2[found])
    counts = coding.MatchCounts(
        total=len(file.variants),
        matched=len(matched),
        swapped=int(swapped.sum()),
        flipped=int(flipped.sum()),
        ambiguous=sum(ambiguous),
        mismatched=pairs["row"].nunique() - len(matched),
        absent=len(file.variants) - pairs["row"].nunique(),
    )
    expected = min(counts.total, len(variants)) if may_be_wider else counts.total
    if counts.matched < max(1, coding.LEAST_MATCHED * expected):
        remedy = "Give the genotypes the identifiers of the score (plink2 --set-all-var-ids)"
        if file.by_position:
            remedy = "It is matched by position: take its file for the genotypes' genome build"
        raise InputError(
            f"the genotypes have {counts.matched} of {counts.total} variants of the score: "
            f"{counts.absent} are absent and {counts.mismatched} have other alleles",
            where=file.path,
            limit=f"at least {coding.LEAST_MATCHED:.0%} of {expected}",
            remedy=remedy,
        )
    weights = file.per_allele[rows] * np.where(swapped, -1.0, 1.0)[:, None]
    constant = -2 * weights[swapped].sum(axis=0)
    centres = np.full(len(found), np.nan)
    if file.centres is not None:
        chosen = variants.select(found)
        centres = 2 * coding.read_reference_frequencies(file.centres, chosen).a1_frequency
    return MatchedWeights(found, weights, constant, centres, counts)


def score_people(genotypes: Genotypes, weights: MatchedWeights) -> Floats:
    """Return the scores of all people, shape (people, l).

    Memory is that of one chunk of packed genotypes, a batch of dosages, and the result. Products
    are of whole steps of a dosage, so that sums of small integers are exact in any order.
    """
    per_copy = genotypes.packing.steps
    sums = np.zeros((len(genotypes.samples), weights.per_allele1.shape[1]))
    for part in starmap(slice, runs_of(weights.variants // genotypes.variants_per_read)):
        check()
        packed = genotypes.read(weights.variants[part])
        centre = weights.centre[part]
        if np.isnan(centre).any():
            centre = np.where(np.isnan(centre), _means(genotypes, packed), centre)
        for batch, steps in _batches(genotypes, packed):
            dosages = steps.astype(np.float64)
            variants, people = np.nonzero(steps == MISSING_DOSAGE)
            dosages[variants, people] = per_copy * centre[variants]
            sums[batch] += dosages.T @ weights.per_allele1[part]
    return np.asarray(weights.constant + sums / per_copy)


def _means(genotypes: Genotypes, packed: PackedBytes) -> Floats:
    """Return the mean dosage of allele 1 of each variant, 0 without a call."""
    total, called = np.zeros(len(packed), np.int64), np.zeros(len(packed), np.int64)
    for _, steps in _batches(genotypes, packed):
        known = steps != MISSING_DOSAGE
        total += np.where(known, steps, 0).sum(axis=1)
        called += known.sum(axis=1)
    return np.asarray(total / (genotypes.packing.steps * np.maximum(called, 1)))


def _batches(
    genotypes: Genotypes, packed: PackedBytes
) -> Iterator[tuple[slice, npt.NDArray[np.signedinteger[Any]]]]:
    """Yield some people at a time, and the steps of their dosages."""
    n_people, packing = len(genotypes.samples), genotypes.packing
    for people in pieces(n_people, _PEOPLE_PER_BATCH):
        columns = slice(packing.width(people.start), packing.width(people.stop))
        part = np.ascontiguousarray(packed[:, columns])
        yield people, packing.steps_or_missing(part, people.stop - people.start)
