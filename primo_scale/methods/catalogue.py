"""Table of methods: what each method measures, for which privacy units, and how it solves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from primo_scale.errors import UsageError
from primo_scale.gaussian.calibration import release_mu
from primo_scale.gaussian.sensitivity import PrivacyUnit
from primo_scale.methods.estimators import ESTIMATORS, Estimator
from primo_scale.privacy.mechanism import Promise, Recipe
from primo_scale.privacy.planning import PublicSizes

_GENOTYPES_PRIVATE = (PrivacyUnit.FULL, PrivacyUnit.FEATURE)


@dataclass(frozen=True)
class Method:
    """Method of private regression."""

    name: str  # on the command line
    privacy: tuple[PrivacyUnit, ...]  # privacy units that the method supports
    estimator: Estimator  # of the weights, by default; some methods let the user choose another one
    summary: str  # description in one line
    eigenvalue_share: float = 0.0  # of mu^2, to measure the smallest eigenvalue of X'X
    gram_per_phenotype: bool = False  # whether every phenotype has a noisy X'X of its own
    subsamples: bool = False  # whether X'X is summed over a secret subsample
    projects_phenotypes: bool = False  # whether Y'Y projects X'Y before it is solved

    @property
    def takes_public_scores(self) -> bool:
        """Whether public scores can be the prior mean of the effects."""
        one_target = not (self.gram_per_phenotype or self.projects_phenotypes)
        return one_target and self.estimator.fits_variances

    def recipe(self, n_phenotypes: int, subsample: int | None) -> Recipe:
        """Return the description of the noisy measurements.

        X'X is summed over `subsample` people, or over all people if it is None. A UsageError is
        raised if the method takes no subsample and a size is given, or if it needs one.
        """
        if self.subsamples and subsample is None:
            raise UsageError(
                f"{self.name} needs the size of the subsample",
                where="--subsample",
                remedy="Give --subsample, or use reuse-cov-gauss, which is never less accurate",
            )
        if subsample is not None and not self.subsamples:
            raise UsageError(
                f"{self.name} sums over all people",
                where="--subsample",
                value=subsample,
                remedy="Leave --subsample out, or use --method sub-samp-reuse-cov",
            )
        copies = n_phenotypes if self.gram_per_phenotype else 1
        return Recipe(self.eigenvalue_share, copies, subsample)


GAMMA_METHOD = "ada-ssp-budget"
"""Method whose share of mu^2 for the smallest eigenvalue is a public parameter."""

_TABLE = (
    Method(
        name="reuse-cov-gauss",
        privacy=tuple(PrivacyUnit),
        estimator=ESTIMATORS["effect-variances"],
        summary="one noisy X'X for all phenotypes, weights for known noise",
    ),
    Method(
        name="reuse-cov-proj-x",
        privacy=(PrivacyUnit.LABEL,),
        estimator=ESTIMATORS["projection"],
        summary="X'Y projected onto what bounded phenotype rows and the public genotypes allow",
    ),
    Method(
        name="reuse-cov-proj-y",
        privacy=(PrivacyUnit.FEATURE,),
        estimator=ESTIMATORS["effect-variances"],
        summary="X'Y projected onto what bounded genotype rows and Y'Y allow",
        projects_phenotypes=True,
    ),
    Method(
        name="reuse-cov-proj",
        privacy=(PrivacyUnit.FULL,),
        estimator=ESTIMATORS["projection"],
        summary="as reuse-cov-proj-x, with the noisy X'X instead of the genotypes",
    ),
    Method(
        name="sub-samp-reuse-cov",
        privacy=_GENOTYPES_PRIVATE,
        estimator=ESTIMATORS["effect-variances"],
        summary="X'X of a secret subsample: less to compute, never less noise",
        subsamples=True,
    ),
    Method(
        name="ssp",
        privacy=_GENOTYPES_PRIVATE,
        estimator=ESTIMATORS["unit-ridge"],
        summary="sufficient statistics perturbation: ridge 1",
    ),
    Method(
        name="ada-ssp",
        privacy=_GENOTYPES_PRIVATE,
        estimator=ESTIMATORS["ridge-beyond-smallest-eigenvalue"],
        summary="ridge from a private smallest eigenvalue, bought with 1/3 of the budget",
        eigenvalue_share=1 / 3,
    ),
    Method(
        name=GAMMA_METHOD,
        privacy=_GENOTYPES_PRIVATE,
        estimator=ESTIMATORS["ridge-beyond-smallest-eigenvalue"],
        summary="ridge from a private smallest eigenvalue, bought with a share gamma of the budget",
        eigenvalue_share=0.05,  # unless --gamma gives another
    ),
    Method(
        name="const-ssp-full",
        privacy=_GENOTYPES_PRIVATE,
        estimator=ESTIMATORS["ridge-beyond-smallest-eigenvalue"],
        summary="ridge at the norm of the noise, which costs no budget",
    ),
    Method(
        name="naive",
        privacy=_GENOTYPES_PRIVATE,
        estimator=ESTIMATORS["effect-variances"],
        summary="a baseline: a separate noisy X'X for every phenotype",
        gram_per_phenotype=True,
    ),
)

AS_GIVEN, BY_SUBSAMPLE = "as given", "--subsample"
BY_COMPONENTS = "LD components are solved by no other method"
_MOST_ACCURATE = "where {} are private, this was the most accurate method measured"
_CROSSOVER = (
    "{} phenotypes are {} the {} from which on a projection by Y'Y removes noise "
    "from X'Y: n mu / (2 sqrt d) times the square root of the share of N_x that an average row "
    "reaches"
)
_LABELS, _ROWS, _FEWER, _NOT_FEWER = (
    "phenotypes", "genotypes and phenotypes", "fewer than", "not fewer than"
)  # fmt: skip
REASONS = (
    *(AS_GIVEN, BY_SUBSAMPLE, BY_COMPONENTS),
    *map(_MOST_ACCURATE.format, (_LABELS, _ROWS)),
    *(_CROSSOVER.format(0, verdict, 0) for verdict in (_FEWER, _NOT_FEWER)),
)
"""Reasons of a private release for its method, with 0 in place of the numbers of a cohort."""

METHODS: Mapping[str, Method] = MappingProxyType({method.name: method for method in _TABLE})
"""Methods by name."""


def method_named(name: str, privacy: PrivacyUnit) -> Method:
    """Return the method of a name, or refuse one that does not support the privacy unit."""
    method = METHODS.get(name)
    if method is None:
        raise UsageError(
            "no such method",
            where="--method",
            value=name,
            remedy=f"Choose auto or one of {', '.join(METHODS)}",
        )
    if privacy not in method.privacy:
        fitting = [m.name for m in _TABLE if privacy in m.privacy]
        raise UsageError(
            f"{name} is not for {privacy} privacy",
            where="--method",
            value=name,
            remedy=f"Choose auto or one of {', '.join(fitting)}",
        )
    return method


def choose_method(promise: Promise, sizes: PublicSizes) -> tuple[Method, str]:
    """Choose a method from public sizes alone, and return it with the reason, as text for the log.

    The projection by Y'Y has an effect only if noise moves X'Y outside the set that bounded
    genotype rows can produce. For rows at their bounds this holds from
    ``l = n mu / (2 sqrt d)`` phenotypes on (docs/maths/papers.md, item 5). The radius of the
    projection comes from the noisy trace of X'X, which reflects an average squared row norm of V
    instead of the bound N_x; this multiplies the threshold by ``sqrt(V / N_x)``. R^2 with and
    without the projection: docs/decisions/shrinkage.md.
    """
    if promise.unit is not PrivacyUnit.FEATURE:
        what = _LABELS if promise.unit is PrivacyUnit.LABEL else _ROWS
        return METHODS["reuse-cov-gauss"], _MOST_ACCURATE.format(what)
    mu = release_mu(promise.epsilon, promise.delta) * math.sqrt(promise.share)
    at_bounds = sizes.n_samples * mu / (2 * math.sqrt(sizes.n_variants))
    filled = sizes.variant_variance * sizes.n_variants / sizes.row_norm
    crossover = max(1, math.ceil(at_bounds * math.sqrt(min(1.0, filled))))
    if sizes.n_phenotypes < crossover:
        name, verdict = "reuse-cov-gauss", _FEWER
    else:
        name, verdict = "reuse-cov-proj-y", _NOT_FEWER
    return METHODS[name], _CROSSOVER.format(sizes.n_phenotypes, verdict, crossover)


def estimator_for(method: Method, chosen: Estimator | None) -> Estimator:
    """Return the estimator chosen by ``--shrinkage`` or ``--ridge``, or the default of the method.

    A UsageError is raised if the method prescribes its own estimator.
    """
    if chosen is None:
        return method.estimator
    if not method.estimator.is_choice:
        raise UsageError(
            f"{method.name} has its own penalty",
            where="--ridge" if chosen is ESTIMATORS["ridge"] else "--shrinkage",
            value=chosen,
            remedy="Leave it out, or use --method reuse-cov-gauss",
        )
    return chosen
