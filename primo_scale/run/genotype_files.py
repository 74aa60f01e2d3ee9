"""Parts of a request that name genotype files, and the patterns that stand for several files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from attrs import field, frozen
from attrs.converters import optional

from primo_scale.errors import UsageError
from primo_scale.genotypes.chromosomes import parse_chromosomes
from primo_scale.genotypes.packings import DOSAGES, HARD_CALLS
from primo_scale.genotypes.source import (
    ALLELE_ORDERS,
    DOSAGE_FORMATS,
    REF_FIRST,
    SOURCES,
    SourceFiles,
)
from primo_scale.run.request_parts import (
    check_choice,
    check_number,
    expanded_paths,
    regular_file,
)
from primo_scale.run.typed_fields import typed


def _chromosomes(value: int | str | Iterable[int | str]) -> tuple[str, ...]:
    several = (value,) if isinstance(value, int | str) else value
    return parse_chromosomes(",".join(map(str, several)))


@frozen(field_transformer=typed)
class GenotypeInputs:
    """Genotype files of the same people, of one format; `GenotypeFiles` describes the fields.

    Raises
    ------
    UsageError
        Files of several formats, `sample` or `bgen_order` without BGEN files, or `dosages` without
        files that can have them.
    """

    bfile: tuple[Path, ...] | None = field(default=None, converter=optional(expanded_paths))
    pfile: tuple[Path, ...] | None = field(default=None, converter=optional(expanded_paths))
    bgen: tuple[Path, ...] | None = field(default=None, converter=optional(expanded_paths))
    vcf: tuple[Path, ...] | None = field(default=None, converter=optional(expanded_paths))
    vcz: tuple[Path, ...] | None = field(default=None, converter=optional(expanded_paths))
    sample: Path | None = field(default=None, converter=optional(regular_file))
    bgen_order: str | None = None
    dosages: bool = False

    @property
    def source_files(self) -> SourceFiles | None:
        """Files of the format that is given, or None."""
        given = [name for name in SOURCES if getattr(self, name) is not None]
        if len(given) > 1:
            raise UsageError("exclude each other", where=" and ".join(f"--{n}" for n in given))
        if self.bgen is None and (self.sample, self.bgen_order) != (None, None):
            raise UsageError("are for --bgen", where="--sample and --bgen-order")
        check_choice("--bgen-order", self.bgen_order, ALLELE_ORDERS)
        if self.dosages and (not given or given[0] not in DOSAGE_FORMATS):
            options = ", ".join(f"--{name}" for name in DOSAGE_FORMATS)
            raise UsageError(f"is for {options}", where="--dosages", remedy="Leave it out")
        if not given:
            return None
        order, packing = self.bgen_order or REF_FIRST, DOSAGES if self.dosages else HARD_CALLS
        return SourceFiles(getattr(self, given[0]), given[0], self.sample, order, packing)

    @property
    def sources(self) -> SourceFiles:
        """Files of the format that is given."""
        files = self.source_files
        if files is None or not files.paths:
            options = ", ".join(f"--{name}" for name in SOURCES)
            raise UsageError("no genotypes are given", remedy=f"Give one of {options}")
        return files


@frozen(field_transformer=typed)
class GenotypeFiles(GenotypeInputs):
    """Genotype files of one format, with filters of their people and variants.

    Attributes
    ----------
    bfile, pfile : tuple of Path or None
        Prefixes of PLINK 1 or PLINK 2 filesets. A single prefix may be given alone; ``chr{1..22}``
        stands for 22 of them, and a file whose name ends in ``.list`` holds one on each line.
    bgen, vcf, vcz : tuple of Path or None
        BGEN files, indexed VCF or BCF files, or VCF-Zarr stores, in the same way.
    sample : Path or None
        The .sample file of the BGEN files; None stands for the sample IDs in them.
    bgen_order : str or None
        Order of the alleles in the BGEN files by plink2's names: ``ref-first`` (also for None),
        ``ref-last`` or ``ref-unknown``. The allele that is not REF is counted.
    dosages : bool
        Whether dosages are read, and not hard calls; PLINK 1 files have none.
    keep, remove : Path or None
        Lists of people to keep and to remove.
    extract, exclude : Path or None
        Lists of variants to extract and to exclude.
    chromosomes : tuple of str or None
        Chromosomes that take part, such as ``"1-4,22,X"`` or ``[21, 22, "X"]``; None stands for all
        that can be scored. Option ``--chr``.
    ref_maf : float or None
        Least frequency of the minor allele in the public panel `ref_freq` (``plink2 --freq``).
        Variants that are rarer or absent there are left out.
    extract_by_prior : Path or None
        Scoring file whose `top` most important variants take part, by frequencies of `ref_freq`.
    top : int or None
        Number of variants that take part, by importance.

    Raises
    ------
    UsageError
        No files, files of several formats, a frequency or a scoring file without a panel, or a
        scoring file without `top` or the reverse.
    """

    keep: Path | None = field(default=None, converter=optional(regular_file))
    remove: Path | None = field(default=None, converter=optional(regular_file))
    extract: Path | None = field(default=None, converter=optional(regular_file))
    exclude: Path | None = field(default=None, converter=optional(regular_file))
    chromosomes: tuple[str, ...] | None = field(default=None, converter=optional(_chromosomes))
    ref_maf: float | None = field(default=None, converter=optional(float))
    ref_freq: Path | None = field(default=None, converter=optional(regular_file))
    extract_by_prior: Path | None = field(default=None, converter=optional(regular_file))
    top: int | None = None

    def __attrs_post_init__(self) -> None:
        self.sources  # noqa: B018  # checked here
        check_number("--top", self.top, least=1)
        if (self.extract_by_prior is None) != (self.top is None):
            raise UsageError("--extract-by-prior and --top go together", remedy="Give both")
        if self.extract_by_prior is not None and self.ref_freq is None:
            raise UsageError(
                "the importance of a variant needs its public frequency",
                where="--extract-by-prior",
                remedy="Give --ref-freq",
            )
        check_number("--ref-maf", self.ref_maf, least=0)
        if self.ref_maf is not None and self.ref_freq is None:
            raise UsageError(
                "needs the frequencies of a panel", where="--ref-maf", remedy="Give --ref-freq"
            )
