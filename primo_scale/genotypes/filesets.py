"""PLINK 1 filesets: a .bed file with its tables of variants (.bim) and people (.fam)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from primo_scale.errors import InputError
from primo_scale.genotypes.bed import BedFile, open_bed
from primo_scale.genotypes.source import GenotypeSource, SourceFiles
from primo_scale.genotypes.tables import read_bim, read_fam
from primo_scale.storage.files import refuse_special_file

EXTENSIONS = (".bed", ".bim", ".fam")

# Option that reads a file of another format, by file name ending.
_OTHER_FORMATS = {
    **dict.fromkeys((".pgen", ".pvar", ".psam"), "--pfile {prefix}"),
    ".bgen": "--bgen {file}",
    **dict.fromkeys((".vcf", ".vcf.gz", ".bcf"), "--vcf {file}"),
}


@dataclass(frozen=True, eq=False)
class Fileset(BedFile, GenotypeSource):
    """A .bed file with its tables, where `where` is the prefix."""

    def files(self) -> list[Path]:
        """Return the three files."""
        return [fileset_path(self.where, kind) for kind in EXTENSIONS]


def fileset_path(prefix: Path, extension: str) -> Path:
    """Return a file of a fileset; unlike `Path.with_suffix`, this allows dots in the prefix."""
    return prefix.parent / (prefix.name + extension)


def open_fileset(prefix: Path, _files: SourceFiles) -> Fileset:
    """Read the tables of a fileset and check the .bed file against them.

    Malformed files, files of other formats, and a file in place of a prefix are refused.
    """
    bed, bim, fam = (fileset_path(prefix, extension) for extension in EXTENSIONS)
    if not bed.exists():
        _check_format(prefix)
    for path in (bed, bim, fam):
        refuse_special_file(path)
    table, people = read_bim(bim), read_fam(fam)
    opened = open_bed(bed, len(people), len(table.variants))
    return Fileset(
        **vars(opened),
        where=prefix,
        samples=people,
        variants=table.variants,
        odd_positions=table.odd_positions,
    )


def refuse_file_of_fileset(prefix: Path, extensions: Collection[str]) -> None:
    """Refuse a file of a fileset in place of the prefix."""
    if prefix.suffix in extensions:
        raise InputError(
            f"is a file, but a fileset is given by its prefix (without {prefix.suffix})",
            where=prefix,
            remedy=f"Give {prefix.with_suffix('')}",
        )


def _check_format(prefix: Path) -> None:
    """Refuse files of other formats, with the option that reads them."""
    refuse_file_of_fileset(prefix, EXTENSIONS)
    for ending, option in _OTHER_FORMATS.items():
        if prefix.name.endswith(ending):
            file, bare = prefix, prefix.with_name(prefix.name.removesuffix(ending))
        else:
            file, bare = fileset_path(prefix, ending), prefix
        if file.exists() or file == prefix:
            raise InputError(
                "is not a PLINK 1 fileset",
                where=file,
                remedy=f"Give {option.format(file=file, prefix=bare)}",
            )
