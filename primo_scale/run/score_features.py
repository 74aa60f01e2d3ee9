"""Score features of a run: read from public files, and computed for the panel and the cohort.

A score is a public linear map of one person's genotypes. It is centred by public frequencies,
divided by its standard deviation in the LD panel, rounded and clipped. Everything later is that of
variants, with the scores of the panel's people as its genotypes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import structs

from primo_scale.errors import InputError
from primo_scale.evaluation.score_features import COPIES_OF_SD, ScoreFeatures, as_variants
from primo_scale.genotypes.coding import (
    LARGEST_CODE,
    REFERENCE_UNIT,
    GenotypeCoding,
    MatchCounts,
    reference_coding,
)
from primo_scale.genotypes.ingest import write_tables
from primo_scale.genotypes.store import DOSAGES, GenotypeStore, open_genotype_store
from primo_scale.kernels.products import Float64
from primo_scale.panel.ld import Float32, LdPanel
from primo_scale.publication.weights import refuse_formulas
from primo_scale.run import options, public_inputs, run_log
from primo_scale.run.design import LARGEST_BLOCK, PublicPanels
from primo_scale.storage import files, groups
from primo_scale.verify.document import RELEASE, StatedFeature, StatedScore

_OPTION = "--score-features"
# Least sd in the panel, over the sum of the magnitudes of a score's weights: with 10^7 independent
# variants it is about 10^-4. A smaller one is chance or rounding.
_LEAST_SD = 1e-6
_LARGEST_SD = 1e100  # that a release states, and over the smallest one


@dataclass(frozen=True, eq=False)
class _ScorePanel(LdPanel):
    """Scores of the people of a panel, in the place of their genotypes."""

    copies: Float32  # of each score, less their mean, shape (K, people)

    def centred_dosages(self, variants: slice) -> tuple[npt.NDArray[np.intp], Float32]:
        """Return the positions of some scores, and the scores in copies."""
        found = self.copies[variants]
        return np.arange(len(found)), found


@run_log.stage("score features")
def write_features(features: ScoreFeatures, genotypes: GenotypeStore) -> GenotypeStore:
    """Write the scores of the people of a store, or find them written. PRIVATE."""
    digest = files.sha256_of_json([features.identity_digest, genotypes.identity_digest])
    if groups.is_complete(features.path, DOSAGES.kind):
        found = open_genotype_store(features.path)
        if found.identity_digest == digest:
            return found
    k, (height, width) = features.n_variants, features.chunk_shape
    group = groups.create_group(features.path, DOSAGES.kind, {})
    layout = groups.ArrayLayout((k, features.n_samples), (height, width), np.uint8)
    array = groups.create_array(group, "genotypes", layout, DOSAGES.missing)
    checksums = np.zeros((-(-k // height), -(-features.n_samples // width)), np.uint32)
    counts: list[npt.NDArray[np.int64]] = []

    def keep(samples: slice, scores: Float64) -> None:
        """Write the chunks of some people, so that memory does not depend on their number."""
        steps = np.rint(scores * (features.step * DOSAGES.steps), out=scores)
        values = np.clip(steps, -LARGEST_CODE, LARGEST_CODE, out=steps).T + LARGEST_CODE
        codes, column = values.astype(np.uint8), samples.start // width
        for row in range(len(checksums)):
            rows = codes[row * height :][:height]
            written = groups.write_chunks_by_rows(array, row, range(column, column + 1), [rows])
            checksums[row, column] = written[0]
        counts.append(DOSAGES.count(codes, codes.shape[1]))

    public_inputs.score_everybody("score features", genotypes, features.weights, keep)
    tables: dict[str, npt.NDArray[Any]] = {
        "genotype_counts": np.sum(counts, axis=0),
        "chunk_crc32c": checksums,
    }
    write_tables(group, tables, features.variants, genotypes.samples)
    groups.flush(group)
    attributes = {
        "n_samples": features.n_samples,
        "n_variants": features.n_variants,
        "chunk_shape": list(features.chunk_shape),
        "identity_digest": digest,
        "cohort_digest": genotypes.cohort_digest,
        "filter_counts": [asdict(count) for count in genotypes.filter_counts],
        "sources": [],
    }
    groups.mark_complete(group, attributes)
    return open_genotype_store(features.path)


def read_features(
    paths: Iterable[Path], genotypes: GenotypeStore, panels: PublicPanels, build: str, path: Path
) -> PublicPanels:
    """Return panels with public scores, to be written to `path`, and with the panel's scores."""
    given = list(chain.from_iterable(map(_files, paths)))
    ld, frequencies = panels.ld, panels.frequencies
    if ld is None or frequencies is None:
        raise ValueError("scores are standardised by a panel")
    columns, names, sources = zip(
        *chain.from_iterable(
            public_inputs.read_columns(
                options.PriorFile(file), genotypes.variants, None, build, option=_OPTION
            )
            for file in given
        ),
        strict=True,
    )
    effects, k = np.stack(columns, axis=1), len(columns)
    del columns  # may be large, as the copies below
    used = np.flatnonzero(effects.any(axis=1))
    if k > min(LARGEST_BLOCK, max(1, len(used))):
        raise InputError(
            "there are too many scores",
            where=_OPTION,
            value=f"{k} scores of {len(used)} variants",
            limit=f"{LARGEST_BLOCK}, and no more than variants",
            remedy="Give fewer",
        )
    with np.errstate(all="ignore"):  # weights may be of any size
        scores = ld.scores(effects)
        # Six digits, because the last bits may differ between machines.
        sds = [float(f"{sd:.6g}") for sd in scores.std(axis=0).tolist()]
        least = np.maximum(_LEAST_SD * np.abs(effects).sum(axis=0), 1 / _LARGEST_SD).tolist()
    stated = tuple(_stated(list(zip(names, sources, strict=True)), sds, least))
    refuse_formulas("score", [each.name for each in stated], "Rename the file")
    per_sd = COPIES_OF_SD / np.array(sds)
    centre = reference_coding(frequencies).centre_dosage[used]
    counts = MatchCounts(len(used), len(used))
    effects = effects[used]
    effects *= per_sd
    weights, step = public_inputs.exact_weights(used, effects, centre, counts)
    copies = np.asarray((scores - scores.mean(axis=0)) * per_sd, np.float32).T
    of_scores = _ScorePanel(
        ld.prefixes, ld.sha256, np.arange(k), np.zeros(k, np.bool_), as_variants(k).chromosome,
        ld._source, copies,
    )  # fmt: skip
    fewest = min(stated, key=lambda each: each.n_matched / each.n_variants)
    run_log.LOGGER.info(
        "%s: %d scores of %d variants; %s has the smallest share of its own, %d of %d",
        _OPTION, k, len(used), fewest.name, fewest.n_matched, fewest.n_variants,
    )  # fmt: skip
    ones = np.full(k, LARGEST_CODE, dtype=np.int16)
    variances = np.full(k, float(REFERENCE_UNIT**2))
    source = f"public scores, centred by {reference_coding(frequencies).source}"
    facts = [structs.asdict(each) for each in stated], frequencies.sha256, ld.sha256, build
    found = ScoreFeatures(
        path=path,
        n_samples=genotypes.n_samples,
        n_variants=k,
        chunk_shape=(DOSAGES.chunk_shape[0], genotypes.chunk_shape[1]),
        identity_digest=files.sha256_of_json(facts),
        cohort_digest=genotypes.cohort_digest,
        packing=DOSAGES,
        coding=GenotypeCoding(ones, ones, REFERENCE_UNIT, variances, source),
        stated=stated,
        table=genotypes.variants.select(used),
        weights=weights,
        step=step,
        centre=centre,
        source=genotypes,
    )
    return replace(panels, ld=of_scores, features=found)


def _files(path: Path) -> list[Path]:
    """Return the scoring files of a folder; a file and a release stand for themselves."""
    if not path.is_dir() or (path / RELEASE.name).is_file():
        return [path]
    found = sorted(each for each in path.iterdir() if not each.name.startswith("."))
    if not found:
        raise InputError("holds no scoring file", where=path)
    return found


def _stated(
    read: list[tuple[str | None, StatedScore]], sds: list[float], least: list[float]
) -> Iterator[StatedFeature]:
    """Yield the statement of every score, with a name of its own."""
    names: set[str] = set()
    for (name, source), sd, smallest in zip(read, sds, least, strict=True):
        if not smallest <= sd <= _LARGEST_SD:
            what = "a score varies too little in the people of --ld-panel, or is too large"
            limit = f"{smallest:.2g} to {_LARGEST_SD:g}"
            raise InputError(what, where=source.file, value=f"sd {sd:.2g}", limit=limit)
        wanted = name or source.pgs_id or source.file.split(".")[0] or source.file
        possible = chain([wanted], (f"{wanted}#{number}" for number in count(2)))
        unique = next(each for each in possible if each not in names)
        names.add(unique)
        yield StatedFeature(
            source.file, source.sha256, source.pgs_id, source.n_variants, source.n_matched,
            unique, sd,
        )  # fmt: skip
