"""Request of an evaluation of scores in people whom one may look at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from attrs import field, frozen
from attrs.converters import optional

from primo_scale.errors import UsageError
from primo_scale.run.genotype_files import GenotypeInputs
from primo_scale.run.request_parts import paths_of, regular_file
from primo_scale.storage.locations import Location, parse_location


def _prevalences(value: Mapping[str, float] | Iterable[str]) -> dict[str, float]:
    pairs = value if isinstance(value, Mapping) else dict(map(_name_and_number, value))
    for name, prevalence in pairs.items():
        if not 0 < prevalence < 1:
            raise UsageError(
                "is no prevalence", where=f"--prevalence {name}", value=prevalence, limit="(0, 1)"
            )
    return dict(pairs)


def _name_and_number(text: str) -> tuple[str, float]:
    name, _, number = text.rpartition("=")
    try:
        return name, float(number)
    except ValueError as error:
        raise UsageError(
            "is no prevalence", where="--prevalence", value=text, remedy="Give NAME=NUMBER"
        ) from error


@frozen(kw_only=True)
class EvaluationRequest(GenotypeInputs):
    """Evaluation of scores in people who consented, are public, or are simulated.

    The cohort that a private release was made from must not be evaluated: the results have no
    noise.

    Attributes
    ----------
    weights : tuple of Path
        Release directories and scoring files.
    pheno : Path
        Table of phenotypes; a score is compared with the phenotype of its name.
    out : Path
        Directory to create.
    bfile, pfile, bgen, vcf, vcz, sample, bgen_order, dosages
        Genotype files of the people, as `primo_scale.GenotypeFiles`.
    genotypes : Location or None
        Genotype store of the people, in place of files.
    covar : Path or None
        Table of covariates, all of which are used.
    groups : Path or None
        Table of IID and group, for results by group.
    prevalence : dict of str to float
        Prevalence of binary phenotypes in the population.

    Raises
    ------
    UsageError
        No weights, files together with a store or neither, or a prevalence outside (0, 1).
    """

    weights: tuple[Path, ...] = field(converter=paths_of)
    pheno: Path = field(converter=regular_file)
    out: Path = field(converter=Path)
    genotypes: Location | None = field(default=None, converter=optional(parse_location))
    covar: Path | None = field(default=None, converter=optional(regular_file))
    groups: Path | None = field(default=None, converter=optional(regular_file))
    prevalence: Mapping[str, float] = field(factory=dict, converter=_prevalences)

    def __attrs_post_init__(self) -> None:
        if not self.weights:
            raise UsageError("no weights are given", where="--weights")
        if (self.source_files is None) == (self.genotypes is None):
            raise UsageError("people come from files or from --genotypes", remedy="Give one")
