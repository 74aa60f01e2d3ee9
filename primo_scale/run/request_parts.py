"""Parts of a request, each typed, checked once and then frozen, as in `request.py`."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from attrs import field, frozen
from attrs.converters import optional

from primo_scale.errors import InputError, UsageError
from primo_scale.gaussian.calibration import release_mu
from primo_scale.gaussian.sensitivity import Adjacency, PrivacyUnit
from primo_scale.genotypes.genome_build import BUILD_NAMES, build_name
from primo_scale.methods.estimators import ESTIMATORS, Estimator
from primo_scale.privacy.mechanism import Promise
from primo_scale.publication.schema_types import ONE_LINE
from primo_scale.run.design import Budget
from primo_scale.run.typed_fields import typed
from primo_scale.storage.files import refuse_special_file

StrPath = str | Path
_RANGE = re.compile(r"\{([0-9]+)\.\.([0-9]+)\}")
_AUTOSOMES = "{1..22}"
_LIST = ".list"

# ---- Conversion of values ------------------------------------------------------------------------


def regular_file(path: StrPath) -> Path:
    """Return the path of a file, unless it is a pipe, a socket or a device."""
    refuse_special_file(Path(path))
    return Path(path)


def one_line(text: str) -> str:
    """Return a name that a release repeats, unless it has a character that no release prints."""
    if not re.fullmatch(ONE_LINE, text):
        raise UsageError(
            "a release repeats this name, which is empty or has control characters",
            value=repr(text),
            remedy="Give it another name, of printable text on one line",
        )
    return text


def published_path(path: StrPath) -> Path:
    """Return the path of a public file, of which a release repeats the name without directories."""
    one_line(Path(path).name)
    return regular_file(path)


def paths_of(value: StrPath | Iterable[StrPath]) -> tuple[Path, ...]:
    """Return one path, or several, as a tuple."""
    return tuple(map(Path, (value,) if isinstance(value, str | Path) else value))


def expanded_paths(value: StrPath | Iterable[StrPath]) -> tuple[Path, ...]:
    """Return the paths that one path or several stand for, in order.

    ``chr{1..22}`` stands for 22 paths, and ``@`` in a file name for ``{1..22}``. A file whose name
    ends in ``.list`` holds one path per line.
    """
    return tuple(path for each in paths_of(value) for path in _expand(each))


def _expand(path: Path) -> Iterator[Path]:
    if path.suffix == _LIST:
        yield from (part for line in _lines(path) for part in _expand(Path(line)))
        return
    text = str(path.with_name(path.name.replace("@", _AUTOSOMES))) if path.name else str(path)
    found = _RANGE.search(text)
    if found is None:
        yield path
        return
    for number in range(int(found[1]), int(found[2]) + 1):
        yield from _expand(Path(f"{text[: found.start()]}{number}{text[found.end() :]}"))


def _lines(path: Path) -> list[str]:
    try:
        lines = regular_file(path).read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read as a list of paths: {error}", where=path) from error
    return [line.strip() for line in lines if line.strip()]


def published_paths(value: StrPath | Iterable[StrPath]) -> tuple[Path, ...]:
    """Return `expanded_paths` of public files, of which a release repeats the names."""
    return tuple(map(published_path, expanded_paths(value)))


def release_directory(path: StrPath) -> Path:
    """Return the absolute path of a release directory, beside which the work directory may lie."""
    absolute = Path(path).absolute()
    if not absolute.name:
        raise UsageError("a release needs a directory of its own", where="--out", value=absolute)
    return absolute


def beside_release(out: Path) -> Path:
    """Return the default work directory of a request whose `out` is a `release_directory`."""
    return out.with_name(f"{out.name}.work")


def to_build_name(value: str | None) -> str | None:
    """Return the PGS Catalog's name of a genome build."""
    found = None if value is None else build_name(value)
    if value is not None and found is None:
        raise _no_choice("--genome-build", value, [*BUILD_NAMES, "hg19", "hg38"])
    return found


def check_choice(option: str, value: str | None, choices: Iterable[str]) -> None:
    """Refuse a value that is not one of the choices of an option."""
    if value is not None and value not in choices:
        raise _no_choice(option, value, choices)


def _no_choice(option: str, value: str, choices: Iterable[str]) -> UsageError:
    return UsageError("not a valid choice", where=option, value=value, limit=", ".join(choices))


def _ld_blocks(value: StrPath) -> str:
    regular_file(one_line(os.fspath(value)))
    return os.fspath(value)


def _unit(value: str) -> PrivacyUnit:
    check_choice("--privacy", value, list(PrivacyUnit))
    return PrivacyUnit(value)


def _adjacency(value: str) -> Adjacency:
    check_choice("--adjacency", value, list(Adjacency))
    return Adjacency(value)


def check_number(option: str, value: float | None, *, least: float, above: bool = False) -> None:
    """Refuse a number that is not finite, or below a bound."""
    if value is None:
        return
    if not math.isfinite(value) or value < least or (above and value == least):
        limit = f"{'>' if above else '>='} {least:g}"
        raise UsageError("is out of range", where=option, value=value, limit=limit)


@frozen(field_transformer=typed)
class PriorFile:
    """Scoring file that is a prior of one phenotype, or of all if `phenotype` is None."""

    path: Path
    phenotype: str | None = None

    def __str__(self) -> str:
        return f"{self.path}" if self.phenotype is None else f"{self.phenotype}={self.path}"


def _prior_files(value: StrPath | Iterable[StrPath | PriorFile]) -> tuple[PriorFile, ...]:
    """Return prior files from ``FILE`` or ``PHENOTYPE=FILE``, one or several."""
    found = (value,) if isinstance(value, str | Path) else value
    return tuple(f if isinstance(f, PriorFile) else _prior_file(os.fspath(f)) for f in found)


def _prior_file(text: str) -> PriorFile:
    phenotype, equals, name = text.partition("=")
    path = Path(text if Path(text).exists() or not equals else name)
    if not path.exists():
        raise UsageError("no such file", where="--prior-weights", value=text)
    return PriorFile(regular_file(path), phenotype if path != Path(text) else None)


_LARGEST_HOLD_OUT = 0.5


# ---- Parts ---------------------------------------------------------------------------------------


@frozen(field_transformer=typed)
class OutcomeTables:
    """Tables of phenotypes and covariates, with the public bounds of their columns.

    Attributes
    ----------
    pheno, covar : Path
        Table of phenotypes, and table of covariates or None.
    pheno_bounds, covar_bounds : Path
        Tables of name, lower and upper for each column; required for each table that is given.
    pheno_name, covar_name : tuple of str or None
        Phenotypes and covariates that take part, one or several; ``*`` and ``?`` may stand for
        characters. None stands for every column.
    pc_loadings : Path or None
        Loadings of a public panel, PREFIX.eigenvec.allele; the principal components of every person
        are covariates. Bounds in `covar_bounds` take the place of those of the panel.

    Raises
    ------
    UsageError
        A table has no bounds, or an option belongs to a table that is not given.
    """

    pheno: Path = field(converter=regular_file)
    pheno_bounds: Path | None = field(default=None, converter=optional(regular_file))
    covar: Path | None = field(default=None, converter=optional(regular_file))
    covar_bounds: Path | None = field(default=None, converter=optional(regular_file))
    pheno_name: tuple[str, ...] | None = field(default=None, converter=optional(tuple[str, ...]))
    covar_name: tuple[str, ...] | None = field(default=None, converter=optional(tuple[str, ...]))
    pc_loadings: Path | None = field(default=None, converter=optional(published_path))

    def __attrs_post_init__(self) -> None:
        for option in ("pheno", "covar"):
            if getattr(self, option) is not None and getattr(self, f"{option}_bounds") is None:
                raise UsageError(
                    "public bounds are needed, since bounds taken from the data would be private",
                    where=f"--{option}-bounds",
                    remedy="Give a table of name, lower and upper for every column",
                )
        if self.pheno_name == ():
            remedy = "Leave it out for every phenotype"
            raise UsageError("names no phenotype", where="--pheno-name", remedy=remedy)
        if self.covar_name is not None and self.covar is None:
            raise UsageError("names columns of --covar", where="--covar-name")
        if self.covar_bounds is not None and self.covar is None and self.pc_loadings is None:
            raise UsageError(
                "has bounds of columns of --covar",
                where="--covar-bounds",
                value=self.covar_bounds,
                remedy="Give --covar too, or leave --covar-bounds out",
            )


@frozen(field_transformer=typed)
class Model:
    """Public choices that shape the statistics.

    Attributes
    ----------
    ref_freq : Path or None
        Public allele frequencies of a reference panel; None stands for a coding of 0, 1 and 2
        copies as -1, 0 and 1.
    ld_blocks : str or None
        ``window:N``, or the path of a table of LD blocks; None stands for the blocks of `ld_panel`,
        or for one dense block without it.
    ld_panel : tuple of Path or None
        Prefixes of PLINK 1 filesets of public people, for their linkage disequilibrium; one or
        several, as of `GenotypeFiles`.
    panel_populations : Path or None
        Table of IID and population of the people of `ld_panel`: the release says how much of a
        score differs between these, and how accurate it is within them.
    ld_components : bool
        Whether components of `ld_panel` take the place of the variants in a private release.
    genetic_factors : int or None
        Number of genetic factors that the phenotypes are expected to share, for which components
        are chosen; None stands for phenotypes that share none.
    rounds : int or None
        Measurements of X'Y, 1 or 2; None stands for 2 where effects of LD components can be
        sampled, there are at most 100 phenotypes and no `genetic_factors` are given, else for 1.
    row_norm : float or None
        Bound on the norm of a coded genotype row, in units of the coding; None stands for the rule
        of docs/maths/clipping-and-integers.md.
    """

    ref_freq: Path | None = field(default=None, converter=optional(published_path))
    ld_blocks: str | None = field(default=None, converter=optional(_ld_blocks))
    ld_panel: tuple[Path, ...] | None = field(default=None, converter=optional(published_paths))
    panel_populations: Path | None = field(default=None, converter=optional(published_path))
    ld_components: bool = True
    genetic_factors: int | None = None
    rounds: int | None = None
    row_norm: float | None = field(default=None, converter=optional(float))

    def __attrs_post_init__(self) -> None:
        check_number("--row-norm", self.row_norm, least=0, above=True)
        check_number("--genetic-factors", self.genetic_factors, least=1)
        if self.rounds not in (None, 1, 2):
            raise UsageError("is not a number of rounds", where="--rounds", value=self.rounds)
        if self.genetic_factors is not None and (self.ld_panel is None or not self.ld_components):
            raise UsageError(
                "chooses LD components, and this request has none",
                where="--genetic-factors",
                value=self.genetic_factors,
                remedy="Leave it out, or give --ld-panel without --no-ld-components",
            )
        if self.panel_populations is not None and self.ld_panel is None:
            raise UsageError(
                "has the populations of people of --ld-panel, and this request has none",
                where="--panel-populations",
                remedy="Give --ld-panel, or leave it out",
            )
        if self.ld_panel is not None and self.ref_freq is None:
            raise UsageError(
                "an LD panel needs the allele frequencies of its population",
                where="--ld-panel",
                remedy="Give --ref-freq, which plink2 --freq writes for the panel",
            )


def budget_from(epsilon: float | None, delta: float | None, *, non_private: bool) -> Budget | None:
    """Return (epsilon, delta) of a request, or None; refuse one alone, or both without noise."""
    if epsilon is None and delta is None:
        return None
    if non_private:
        raise UsageError(
            "--non-private adds no noise, and --epsilon and --delta ask for a private release",
            where="--non-private",
            remedy="Leave out --non-private, or --epsilon and --delta",
        )
    if epsilon is None or delta is None:
        raise UsageError("--epsilon and --delta go together", remedy="Give both")
    release_mu(epsilon, delta)
    return Budget(epsilon, delta)


@frozen(field_transformer=typed)
class Privacy:
    """Guarantee that a release gives, or that statistics are prepared for.

    Attributes
    ----------
    epsilon, delta : float or None
        Privacy parameters of the release; required unless it is not private.
    unit : PrivacyUnit
        What is protected: ``full``, ``label`` or ``feature``. Option ``--privacy``.
    adjacency : Adjacency
        Neighbouring relation between cohorts: ``replace-one`` or ``add-remove``.
    nominal_n : int or None
        Public round number of people that everything is planned for, where the real one is private.
    subsample : int or None
        Number of random people that X'X is summed over; None stands for everybody.
    hold_out : float or None
        Share of the people who count in no sum, and with whom the weights are measured; None stands
        for nobody.
    non_private : bool
        Whether the release has no noise and rows are not scaled down. It is stamped NOT PRIVATE.

    Raises
    ------
    UsageError
        Values that exclude each other, or a missing or needless nominal size.
    """

    epsilon: float | None = field(default=None, converter=optional(float))
    delta: float | None = field(default=None, converter=optional(float))
    unit: PrivacyUnit = field(default=PrivacyUnit.FULL, converter=_unit)
    adjacency: Adjacency = field(default=Adjacency.REPLACE_ONE, converter=_adjacency)
    nominal_n: int | None = None
    subsample: int | None = None
    hold_out: float | None = field(default=None, converter=optional(float))
    non_private: bool = False

    def __attrs_post_init__(self) -> None:
        check_number("--nominal-n", self.nominal_n, least=1)
        check_number("--subsample", self.subsample, least=1)
        self.budget  # noqa: B018  # checked here
        hides_n = self.hides_n
        if hides_n != (self.nominal_n is not None):
            raise UsageError(
                "the number of people is private: name a public round size to plan for"
                if hides_n
                else "the number of people is public and needs no stand-in",
                where="--nominal-n",
                value=self.nominal_n,
                remedy="Give the order of magnitude, such as 500000" if hides_n else "Leave it out",
            )
        if self.non_private and self.subsample:
            raise UsageError("without noise a subsample only loses people", where="--subsample")
        if self.hold_out is not None:
            _check_hold_out(self, self.hold_out)

    @property
    def budget(self) -> Budget | None:
        """(epsilon, delta), or None where they are not given."""
        return budget_from(self.epsilon, self.delta, non_private=self.non_private)

    @property
    def hides_n(self) -> bool:
        """Whether the number of people is private."""
        # It does not depend on epsilon and delta.
        return not self.non_private and Promise(1.0, 1e-6, self.unit, self.adjacency).n_is_private


def _check_hold_out(privacy: Privacy, share: float) -> None:
    """Refuse a hold-out that is no share, or that no theorem of docs/maths/hold-out.md covers."""
    if not 0 < share <= _LARGEST_HOLD_OUT:
        limit = f"more than 0, at most {_LARGEST_HOLD_OUT:g}"
        raise UsageError("is out of range", where="--hold-out", value=share, limit=limit)
    if privacy.non_private or privacy.subsample or privacy.adjacency is not Adjacency.REPLACE_ONE:
        raise UsageError(
            "people are held out of private releases of everybody under replace-one alone",
            where="--hold-out",
            remedy="Leave out --hold-out, or --non-private, --subsample and --adjacency",
        )


@frozen(field_transformer=typed)
class Fit:
    """Method and shrinkage that turn private statistics into weights.

    Attributes
    ----------
    method : str
        ``auto``, or a name from docs/methods.md.
    shrinkage : str or None
        Name of a rule of shrinkage; None stands for the rule of the method.
    ridge : float or None
        Penalty, as scikit-learn's ``Ridge(alpha)`` on genotypes g of about unit variance:
        ``(k g - m) / 16`` with allele frequencies, and ``g - 1`` without them. None stands for the
        rule of the method.
    gamma : float or None
        Share of mu^2 that ``ada-ssp-budget`` spends on the smallest eigenvalue of X'X; None stands
        for 5%.
    prior_weights : tuple of PriorFile
        Scoring files of public scores that are the prior mean of the effects, as ``FILE`` or
        ``PHENOTYPE=FILE``.

    Raises
    ------
    UsageError
        A negative or infinite penalty, a penalty and a rule of shrinkage together, or a share that
        is not between 0 and 1.
    """

    method: str = "auto"
    shrinkage: str | None = None
    ridge: float | None = field(default=None, converter=optional(float))
    gamma: float | None = field(default=None, converter=optional(float))
    prior_weights: tuple[PriorFile, ...] = field(default=(), converter=_prior_files)

    def __attrs_post_init__(self) -> None:
        check_number("--ridge", self.ridge, least=0)
        if self.gamma is not None and not 0 < self.gamma < 1:
            limit = "more than 0, less than 1"
            raise UsageError("is out of range", where="--gamma", value=self.gamma, limit=limit)
        if self.ridge is not None and self.shrinkage is not None:
            raise UsageError("--ridge and --shrinkage exclude each other", where="--shrinkage")
        choices = [name for name, estimator in ESTIMATORS.items() if estimator.is_choice]
        check_choice("--shrinkage", self.shrinkage, choices)

    @property
    def estimator(self) -> Estimator | None:
        """Rule that is asked for; None stands for the rule of the method."""
        if self.ridge is not None:
            return ESTIMATORS["ridge"]
        return None if self.shrinkage is None else ESTIMATORS[self.shrinkage]
