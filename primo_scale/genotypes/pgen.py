"""PLINK 2 filesets (.pgen, .pvar or .pvar.zst, .psam), whose genotypes Pgenlib reads.

Phase is ignored. Hard calls and dosages are those that plink2 stored; a person without a dosage has
that of the hard call. The ALT allele is counted, as in ``plink2 --make-bed``.

In the tables of variants and people, lines before the header that begin with ``##`` are ignored,
and so are the columns QUAL, FILTER, INFO and all phenotypes. As in plink2, a .pvar without a header
has the columns of a .bim file, a .psam without one those of a .fam file, and FID is ``0`` without a
column of that name.
"""

from __future__ import annotations

import queue
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from primo_scale.errors import InputError
from primo_scale.genotypes import bed, tables
from primo_scale.genotypes.source import GenotypeSource, SourceFiles, import_library
from primo_scale.genotypes.store import DOSAGES, PackedBytes
from primo_scale.kernels import dosage_bytes, packed
from primo_scale.storage.files import refuse_missing_file

EXTENSIONS = (".pgen", ".pvar", ".psam")
_PVAR_NAMES = {
    "#CHROM": "chromosome", "ID": "ID", "POS": "position", "ALT": "A1", "REF": "A2",
}  # fmt: skip
_PSAM_NAMES = {"#FID": "FID", "#IID": "IID", "IID": "IID"}
# Other columns that a header must have, by its first column.
_PVAR_HEADERS = {"#CHROM": ("POS", "ID", "REF", "ALT")}
_PSAM_HEADERS: dict[str, tuple[str, ...]] = {"#FID": ("IID",), "#IID": ()}

if TYPE_CHECKING:
    from pgenlib import PgenReader


@dataclass(frozen=True, eq=False)
class PgenFileset(GenotypeSource):
    """Hard calls or dosages of a PLINK 2 fileset."""

    variant_table: Path  # .pvar or .pvar.zst file
    sample_table: Path  # .psam file
    # A reader belongs to one thread at a time, and opening one reads the header of the .pgen file.
    _idle: queue.SimpleQueue[PgenReader] = field(default_factory=queue.SimpleQueue)

    def files(self) -> list[Path]:
        """Return the files, including the index that some .pgen files have."""
        index = self.where.with_name(self.where.name + ".pgi")
        indices = [index] if index.exists() else []
        return [self.where, *indices, self.variant_table, self.sample_table]

    def read_into(self, result: PackedBytes, variants: tables.Index, samples: tables.Index) -> None:
        """Read in slabs of at most `RAW_SLAB_BYTES`, of one byte a call or four bytes a dosage."""
        of_dosages = self.packing is DOSAGES
        dtype = np.dtype(np.float32 if of_dosages else np.int8)
        rows = max(1, bed.RAW_SLAB_BYTES // (dtype.itemsize * len(samples)))
        copies = np.empty((min(rows, len(variants)), len(samples)), dtype=dtype)
        with self._reader(samples) as reader:
            read = reader.read_dosages_list if of_dosages else reader.read_list
            for start in range(0, len(variants), rows):
                part = variants[start : start + rows].astype(np.uint32)
                read(part, copies)
                found, target = copies[: len(part)], result[start : start + rows]
                if not of_dosages:
                    packed.pack_copies(found, target)
                elif not dosage_bytes.bytes_of_copies(found, target):
                    raise InputError("has a dosage that is not between 0 and 2", where=self.where)

    @contextmanager
    def _reader(self, samples: tables.Index) -> Iterator[PgenReader]:
        """Lend a reader of these people to the calling thread."""
        everybody = len(samples) == len(self.samples)
        try:
            try:
                reader = self._idle.get_nowait()
            except queue.Empty:
                pgenlib = import_library("pgenlib", "Pgenlib", "--pfile", "plink2 --make-bed")
                sizes = {"raw_sample_ct": len(self.samples), "variant_ct": len(self.variants)}
                reader = pgenlib.PgenReader(bytes(self.where), **sizes)
            reader.change_sample_subset(None if everybody else samples.astype(np.uint32))
            yield reader
        except RuntimeError as error:
            words = error.args[0] if error.args else ""
            text = words.decode(errors="replace") if isinstance(words, bytes) else str(words)
            raise InputError(
                f"Pgenlib cannot read it: {' '.join(text.split())}",
                where=self.where,
                remedy="Check that .pgen, .pvar and .psam belong together (plink2 --validate)",
            ) from error
        self._idle.put(reader)


def open_pgen(prefix: Path, files: SourceFiles) -> PgenFileset:
    """Read the tables of a fileset and check the .pgen file against them.

    Missing or malformed files, and variants with more than two alleles, are refused.
    """
    pgen, pvar, psam = (bed.fileset_path(prefix, kind) for kind in EXTENSIONS)
    if not pgen.exists():
        bed.refuse_file_of_fileset(prefix, EXTENSIONS)
    if not pvar.exists() and bed.fileset_path(prefix, ".pvar.zst").exists():
        pvar = bed.fileset_path(prefix, ".pvar.zst")
    for path in (pgen, pvar, psam):
        refuse_missing_file(path)
    variants, people = _read_pvar(pvar), _read_psam(psam)
    tables.refuse_multiallelic(
        variants,
        pvar,
        f"Keep the others with plink2 --pfile {prefix} --max-alleles 2 --make-pgen --out "
        f"{prefix}.biallelic, or split them before plink2 reads them (bcftools norm -m -any)",
    )
    fileset = PgenFileset(pgen, people, variants, pvar, psam, packing=files.packing)
    with fileset._reader(np.arange(len(people))):
        return fileset


def _read_pvar(path: Path) -> tables.VariantTable:
    """Read a .pvar file; A1 is ALT, with commas between several, and A2 is REF.

    The refusals are those of `primo_scale.genotypes.tables.read_bim`, and a header without one of
    the five required columns.
    """
    with tables.open_lines(path) as lines:
        header, rows = _after_header(lines, path, _PVAR_HEADERS)
        columns = [_PVAR_NAMES.get(name, name) for name in header] or list(tables.BIM_COLUMNS)
        last = max(columns.index(name) for name in tables.BIM_COLUMNS if name in columns)
        return tables.read_variants(rows, path, columns[: last + 1])


def _read_psam(path: Path) -> tables.SampleTable:
    """Read a .psam file.

    The refusals are those of `primo_scale.genotypes.tables.read_fam`, and a header without IID.
    """
    with tables.open_lines(path) as lines:
        header, rows = _after_header(lines, path, _PSAM_HEADERS)
        columns = [_PSAM_NAMES.get(name, name) for name in header] or list(tables.FAM_COLUMNS)
        return tables.read_people_table(rows, path, columns)


def _after_header(
    lines: Iterator[tuple[int, bytes]], path: Path, headers: Mapping[str, tuple[str, ...]]
) -> tuple[list[str], Iterator[tuple[int, bytes]]]:
    """Return the names of the columns, or none without a header, and the rows."""
    for line, content in lines:
        if content.startswith(b"##"):
            continue
        names = content.decode(errors="replace").split()
        if not content.startswith(b"#"):
            return [], chain([(line, content)], lines)
        missing = [name for name in headers.get(names[0], tuple(headers)) if name not in names[1:]]
        if missing or len(set(names)) < len(names):
            raise InputError(
                f"the header lacks {', '.join(missing)}" if missing else "a column is repeated",
                where=f"{path}:{line}",
                value=" ".join(names)[:80],
                remedy="The header of a .pvar begins with #CHROM POS ID REF ALT, that of a .psam "
                "with #FID IID or #IID",
            )
        return names, lines
    return [], iter(())
