"""The one table of methods: what each measures, under which promises, and how it solves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from primo_scale.errors import UsageError
from primo_scale.methods.estimators import SHRINKAGES, Estimator
from primo_scale.privacy.calibration import release_mu
from primo_scale.privacy.mechanism import Promise, Recipe
from primo_scale.privacy.planning import PublicSizes
from primo_scale.privacy.sensitivity import PrivacyUnit

_EVERY_UNIT = (PrivacyUnit.FULL, PrivacyUnit.LABEL, PrivacyUnit.FEATURE)
_GENOTYPES_PRIVATE = (PrivacyUnit.FULL, PrivacyUnit.FEATURE)


@dataclass(frozen=True)
class Method:
    """A method of private regression.

    Attributes
    ----------
    name
        On the command line.
    privacy
        Units it is for.
    estimator
        How weights are solved for, unless the user chooses another and the method leaves it open.
    summary
        One line.
    eigenvalue_share
        Share of mu^2 that buys the smallest eigenvalue of X'X.
    gram_per_phenotype
        Whether every phenotype gets an X'X of its own.
    subsamples
        Whether X'X is summed over a secret subsample.
    projects_phenotypes
        Whether X'Y is projected by the public Y'Y before it is solved.
    """

    name: str
    privacy: tuple[PrivacyUnit, ...]
    estimator: Estimator
    summary: str
    eigenvalue_share: float = 0.0
    gram_per_phenotype: bool = False
    subsamples: bool = False
    projects_phenotypes: bool = False

    def recipe(self, n_phenotypes: int, subsample: int | None) -> Recipe:
        """What is measured.

        Parameters
        ----------
        n_phenotypes
            l.
        subsample
            People that X'X is summed over, or None for everybody.

        Raises
        ------
        UsageError
            A subsample for a method that takes none, or none for one that does.
        """
        if self.subsamples and subsample is None:
            raise UsageError(
                f"{self.name} needs the size of the subsample",
                where="--subsample",
                remedy="Give --subsample, or use reuse-cov-gauss, which is never less accurate",
            )
        if subsample is not None and not self.subsamples:
            raise UsageError(
                f"{self.name} sums over everybody",
                where="--subsample",
                value=subsample,
                remedy="Leave --subsample out, or use --method sub-samp-reuse-cov",
            )
        copies = n_phenotypes if self.gram_per_phenotype else 1
        return Recipe(self.eigenvalue_share, copies, subsample)


_REUSE_COV_GAUSS = Method(
    name="reuse-cov-gauss",
    privacy=_EVERY_UNIT,
    estimator=Estimator.KNOWN_NOISE,
    summary="one noisy X'X for all phenotypes, weights for known noise",
)
_REUSE_COV_PROJ_Y = Method(
    name="reuse-cov-proj-y",
    privacy=(PrivacyUnit.FEATURE,),
    estimator=Estimator.KNOWN_NOISE,
    summary="X'Y projected onto what bounded genotype rows can make of the public phenotypes",
    projects_phenotypes=True,
)
_TABLE = (
    _REUSE_COV_GAUSS,
    Method(
        name="reuse-cov-proj-x",
        privacy=(PrivacyUnit.LABEL,),
        estimator=Estimator.PROJECTION,
        summary="X'Y projected onto what bounded phenotype rows can make of the public genotypes",
    ),
    _REUSE_COV_PROJ_Y,
    Method(
        name="reuse-cov-proj",
        privacy=(PrivacyUnit.FULL,),
        estimator=Estimator.PROJECTION,
        summary="as reuse-cov-proj-x, with the noisy X'X in place of the genotypes",
    ),
    Method(
        name="sub-samp-reuse-cov",
        privacy=_GENOTYPES_PRIVATE,
        estimator=Estimator.KNOWN_NOISE,
        summary="X'X of a secret subsample: less to compute, never less noise",
        subsamples=True,
    ),
    Method(
        name="ssp",
        privacy=_GENOTYPES_PRIVATE,
        estimator=Estimator.UNIT_RIDGE,
        summary="sufficient statistics perturbation: ridge 1",
    ),
    Method(
        name="ada-ssp",
        privacy=_GENOTYPES_PRIVATE,
        estimator=Estimator.EIGENVALUE_RIDGE,
        summary="ridge from a private smallest eigenvalue, bought with 1/3 of the budget",
        eigenvalue_share=1 / 3,
    ),
    Method(
        name="ada-ssp-budget",
        privacy=_GENOTYPES_PRIVATE,
        estimator=Estimator.EIGENVALUE_RIDGE,
        summary="ridge from a private smallest eigenvalue, bought with 5% of the budget",
        eigenvalue_share=0.05,
    ),
    Method(
        name="const-ssp-full",
        privacy=_GENOTYPES_PRIVATE,
        estimator=Estimator.EIGENVALUE_RIDGE,
        summary="ridge at the norm of the noise, nothing spent on choosing it",
    ),
    Method(
        name="naive",
        privacy=_GENOTYPES_PRIVATE,
        estimator=Estimator.KNOWN_NOISE,
        summary="a baseline: every phenotype pays for a noisy X'X of its own",
        gram_per_phenotype=True,
    ),
)

METHODS: Mapping[str, Method] = MappingProxyType({method.name: method for method in _TABLE})
"""Every method by its name."""


def method_named(name: str, privacy: PrivacyUnit) -> Method:
    """Look a method up.

    Raises
    ------
    UsageError
        There is none of this name, or it is not for this privacy unit.
    """
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
    """Choose a method from public sizes alone, and say why.

    The projection by Y'Y changes nothing until noise takes X'Y out of what bounded genotype rows
    could make: with rows at their bounds from ``l = n mu / (2 sqrt d)`` phenotypes on
    (docs/maths/papers.md, item 5). Its radius comes from the noisy trace of X'X, which knows
    that an average row has norm^2 V and not N_x; that moves it to ``sqrt(V / N_x)`` of this.

    Parameters
    ----------
    promise
        What the release guarantees.
    sizes
        Public.

    Notes
    -----
    Measured in feature privacy at n = 5,008, d = 25, epsilon 5, with rows at their bounds from 458
    phenotypes on (in-sample R^2 of weights for known noise, without and with the projection): 101
    phenotypes .275 and .275, 200 .283 and .298, 458 .238 and .282, 1,001 .234 and .329. At n =
    20,000, d = 200, epsilon 3, with 100, 400 and 800 phenotypes: .223 and .223, .151 and .185, .103
    and .176 (``python -m experiments.after_projection``). After the projection they are told the
    noise it leaves, and no other rule was better by more than .005 (docs/decisions/shrinkage.md).
    """
    if promise.privacy is not PrivacyUnit.FEATURE:
        what = "phenotypes" if promise.privacy is PrivacyUnit.LABEL else "genotypes and phenotypes"
        return _REUSE_COV_GAUSS, (
            f"where {what} are private, weights for known noise from one joint noise did best"
        )
    mu = release_mu(promise.epsilon, promise.delta) * math.sqrt(promise.share)
    at_bounds = sizes.n_samples * mu / (2 * math.sqrt(sizes.n_variants))
    filled = sizes.variant_variance * sizes.n_variants / sizes.row_norm
    crossover = max(1, math.ceil(at_bounds * math.sqrt(min(1.0, filled))))
    if sizes.n_phenotypes < crossover:
        method, verdict = _REUSE_COV_GAUSS, "fewer than"
    else:
        method, verdict = _REUSE_COV_PROJ_Y, "not fewer than"
    return method, (
        f"{sizes.n_phenotypes} phenotypes are {verdict} the {crossover} from which on a projection "
        "by the public phenotypes takes noise out of X'Y: n mu / (2 sqrt d) times the root of the "
        "share of N_x that an average row fills"
    )


def estimator_for(method: Method, chosen: Estimator | None) -> Estimator:
    """The estimator to use.

    Parameters
    ----------
    method
        Of the release.
    chosen
        By ``--shrinkage`` or ``--ridge``, or None.

    Raises
    ------
    UsageError
        One was chosen, and the method has its own or it is none to choose.
    """
    if chosen is None:
        return method.estimator
    if method.estimator not in SHRINKAGES:
        raise UsageError(
            f"{method.name} has a penalty of its own",
            where="--ridge" if chosen is Estimator.RIDGE else "--shrinkage",
            value=chosen,
            remedy="Leave it out, or use --method reuse-cov-gauss",
        )
    if chosen not in (*SHRINKAGES, Estimator.RIDGE):
        raise UsageError(
            "no such shrinkage",
            where="--shrinkage",
            value=chosen,
            remedy=f"Choose one of {', '.join(SHRINKAGES)}",
        )
    return chosen
