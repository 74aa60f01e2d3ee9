"""Register of methods and of estimators: what each measures or computes, and what solves it.

The command line, the audit and the verifier read this register, so the module and what it imports
load no numerical library. The function that solves is imported when a release needs it.
"""

from __future__ import annotations

import math
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from primo_scale.errors import Field, UsageError
from primo_scale.gaussian.sensitivity import PrivacyUnit

if TYPE_CHECKING:
    from primo_scale.privacy.mechanism import Promise, Recipe
    from primo_scale.privacy.planning import PublicSizes

MOST_SAMPLED_EFFECTS = 20_000_000
"""Largest number of variants times phenotypes for which effects are sampled: some ten minutes."""
_ZERO = "eigenvalues below 0 counted as 0 in X'X, and raised to the noise norm for the covariates"
_RAISED = "eigenvalues raised to 0.3 of the noise norm in X'X, and to it for the covariates"


@dataclass(frozen=True)
class Estimator:
    """Estimator of the weights from adjusted statistics."""

    name: str  # in `shrinkage` and release.json
    description: str
    solver: str = "primo_scale.methods.solve:solve"  # ``module:function``
    floor: str = _RAISED  # description of the treatment of small and negative eigenvalues
    is_choice: bool = True  # whether users may choose it with `shrinkage`
    fits_variances: bool = False  # whether it estimates the variances of the effects
    fits_factors: bool = False  # whether it also estimates genetic factors
    samples_effects: bool = False  # whether it also samples point-normal effects
    # Whether the decompositions of all LD blocks stay in memory.
    needs_every_spectrum: bool = False

    def __str__(self) -> str:
        return self.name

    @property
    def is_ridge(self) -> bool:
        """Whether it is ridge regression on the variants, with one penalty in each LD block."""
        return not self.is_choice

    def samples_effects_of(self, n_variants: int, n_phenotypes: int) -> bool:
        """Return whether point-normal effects are sampled of so many variants and phenotypes."""
        return self.samples_effects and n_variants * n_phenotypes <= MOST_SAMPLED_EFFECTS


def load(name: str) -> Callable[..., Any]:
    """Import the function ``module:function`` from statistics, inputs and estimator to `Solution`.

    The statistics are an `Adjustment`, and the inputs `SolveInputs`.
    """
    loaded: Callable[..., Any] = pkgutil.resolve_name(name)
    return loaded


def _of_papers(name: str, description: str, solver: str, *, every: bool = False) -> Estimator:
    solver = f"primo_scale.papers.estimators:{solver}"
    return Estimator(name, description, solver, _ZERO, is_choice=False, needs_every_spectrum=every)


_FITTED = "posterior mean for known noise, with {} estimated from the noisy statistics"
_ESTIMATORS = (
    Estimator("known-noise", "posterior mean for known noise and the prior's effects"),
    Estimator(
        "effect-variances",
        _FITTED.format("the effect variance of each phenotype"),
        fits_variances=True,
    ),
    Estimator(
        "genetic-factors",
        _FITTED.format("effect variances and genetic factors"),
        fits_variances=True,
        fits_factors=True,
    ),
    Estimator(
        "point-normal",
        "as genetic-factors, and with many effects of zero where the noisy statistics show them",
        fits_variances=True,
        fits_factors=True,
        samples_effects=True,
    ),
    _of_papers("ridge", "ridge", "ridge"),
    _of_papers(
        "projection",
        "ridge at the multiplier of the projection, at least at the norm of the noise in X'X",
        "project_genotypes",
        every=True,
    ),
    _of_papers("unit-ridge", "ridge at one squared unit of the genotype coding", "unit_ridge"),
    _of_papers(
        "ridge-beyond-smallest-eigenvalue",
        "ridge at what noise may take from the smallest eigenvalue of X'X and one squared unit of "
        "the genotype coding",
        "eigenvalue_ridge",
    ),
)
ESTIMATORS: Mapping[str, Estimator] = MappingProxyType({each.name: each for each in _ESTIMATORS})
"""Estimators by name."""
SHRINKAGES = tuple(name for name, estimator in ESTIMATORS.items() if estimator.is_choice)
"""Choices of `shrinkage`."""

_GENOTYPES_PRIVATE = (PrivacyUnit.FULL, PrivacyUnit.FEATURE)


@dataclass(frozen=True)
class Method:
    """Method of private regression."""

    name: str  # on the command line
    privacy: tuple[PrivacyUnit, ...]  # privacy units that the method supports
    default: str  # name of an estimator; some methods let the user choose another one
    summary: str  # description in one line
    eigenvalue_share: float = 0.0  # of mu^2, to measure the smallest eigenvalue of X'X
    gram_per_phenotype: bool = False  # whether every phenotype has a noisy X'X of its own
    subsamples: bool = False  # whether X'X is summed over a secret subsample
    projects_phenotypes: bool = False  # whether Y'Y projects X'Y before it is solved
    solver: str | None = None  # ``module:function`` in place of the estimator's

    @property
    def estimator(self) -> Estimator:
        """Estimator of the weights, unless the user chooses another one."""
        return ESTIMATORS[self.default]

    def takes_public_scores(self, estimator: Estimator) -> bool:
        """Return whether public scores can be the prior mean of the effects."""
        return self.solver is None and not estimator.is_ridge

    def recipe(self, n_phenotypes: int, subsample: int | None) -> Recipe:
        """Return the description of the noisy measurements.

        X'X is summed over `subsample` people, or over all people if it is None. A UsageError is
        raised if the method takes no subsample and a size is given, or if it needs one.
        """
        from primo_scale.privacy.mechanism import Recipe  # loads SciPy

        if self.subsamples != (subsample is not None):
            what = "needs the size of the subsample" if self.subsamples else "sums over all people"
            raise UsageError(
                f"{self.name} {what}",
                where=Field("subsample"),
                remedy="Give `subsample` with --method sub-samp-reuse-cov alone",
            )
        copies = n_phenotypes if self.gram_per_phenotype else 1
        return Recipe(self.eigenvalue_share, copies, subsample)


GAMMA_METHOD = "ada-ssp-budget"
"""Method whose share of mu^2 for the smallest eigenvalue is a public parameter."""

_METHODS = (
    Method(
        "reuse-cov-gauss",
        tuple(PrivacyUnit),
        "effect-variances",
        "one noisy X'X for all phenotypes, weights for known noise",
    ),
    Method(
        "reuse-cov-proj-x",
        (PrivacyUnit.LABEL,),
        "projection",
        "X'Y projected onto what bounded phenotype rows and the public genotypes allow",
    ),
    Method(
        "reuse-cov-proj-y",
        (PrivacyUnit.FEATURE,),
        "effect-variances",
        "X'Y projected onto what bounded genotype rows and Y'Y allow",
        projects_phenotypes=True,
        solver="primo_scale.papers.estimators:project_phenotypes",
    ),
    Method(
        "reuse-cov-proj",
        (PrivacyUnit.FULL,),
        "projection",
        "as reuse-cov-proj-x, with the noisy X'X instead of the genotypes",
    ),
    Method(
        "sub-samp-reuse-cov",
        _GENOTYPES_PRIVATE,
        "effect-variances",
        "X'X of a secret subsample: less to compute, never less noise",
        subsamples=True,
    ),
    Method("ssp", _GENOTYPES_PRIVATE, "unit-ridge", "sufficient statistics perturbation: ridge 1"),
    Method(
        "ada-ssp",
        _GENOTYPES_PRIVATE,
        "ridge-beyond-smallest-eigenvalue",
        "ridge from a private smallest eigenvalue, bought with 1/3 of the budget",
        eigenvalue_share=1 / 3,
    ),
    Method(
        GAMMA_METHOD,
        _GENOTYPES_PRIVATE,
        "ridge-beyond-smallest-eigenvalue",
        "ridge from a private smallest eigenvalue, bought with a share gamma of the budget",
        eigenvalue_share=0.05,  # unless gamma gives another
    ),
    Method(
        "const-ssp-full",
        _GENOTYPES_PRIVATE,
        "ridge-beyond-smallest-eigenvalue",
        "ridge at the norm of the noise, which costs no budget",
    ),
    Method(
        "naive",
        _GENOTYPES_PRIVATE,
        "effect-variances",
        "a baseline: a separate noisy X'X for every phenotype",
        gram_per_phenotype=True,
        solver="primo_scale.papers.estimators:solve_separately",
    ),
)
METHODS: Mapping[str, Method] = MappingProxyType({method.name: method for method in _METHODS})
"""Methods by name."""

# Defaults of releases over LD components.
COMPONENTS_METHOD, COMPONENTS_ESTIMATOR = "reuse-cov-gauss", "point-normal"
AS_GIVEN, BY_SUBSAMPLE = "as given", "subsample"
BY_COMPONENTS = "LD components are solved by no other method"
_MOST_ACCURATE = "where {} private, this was the most accurate method measured"
_WITHOUT_PROJECTION = {
    PrivacyUnit.LABEL: _MOST_ACCURATE.format("phenotypes are"),
    PrivacyUnit.FULL: _MOST_ACCURATE.format("genotypes and phenotypes are"),
    PrivacyUnit.FEATURE: "phenotypes that were adjusted for private covariates cannot project X'Y",
}
_CROSSOVER = (
    "{} phenotypes are {} than the {} from which on a projection by Y'Y removes noise "
    "from X'Y: n mu / (2 sqrt d) times the square root of the share of N_x that an average row "
    "reaches"
)


def method_named(name: str, privacy: PrivacyUnit) -> Method:
    """Return the method of a name, or refuse one that does not support the privacy unit."""
    method = METHODS.get(name)
    if method is not None and privacy in method.privacy:
        return method
    fitting = [m.name for m in _METHODS if method is None or privacy in m.privacy]
    raise UsageError(
        "no such method" if method is None else f"{name} is not for {privacy} privacy",
        where="--method",
        value=name,
        remedy=f"Choose auto or one of {', '.join(fitting)}",
    )


def choose_method(promise: Promise, sizes: PublicSizes) -> tuple[Method, str]:
    """Choose a method from public sizes alone, and return it with the reason, as text for the log.

    The projection by Y'Y has an effect only if noise moves X'Y outside the set that bounded
    genotype rows can produce. For rows at their bounds this holds from
    ``l = n mu / (2 sqrt d)`` phenotypes on (docs/maths/papers.md, item 5). The radius of the
    projection comes from the noisy trace of X'X, which reflects an average squared row norm of V
    instead of the bound N_x; this multiplies the threshold by ``sqrt(V / N_x)``. R^2 with and
    without the projection: docs/benchmarks.md.
    """
    from primo_scale.gaussian.calibration import release_mu  # loads SciPy

    if not promise.phenotypes_are_public:
        return METHODS["reuse-cov-gauss"], _WITHOUT_PROJECTION[promise.unit]
    mu = release_mu(promise.epsilon, promise.delta) * math.sqrt(promise.share)
    at_bounds = sizes.n_samples * mu / (2 * math.sqrt(sizes.n_variants))
    filled = sizes.variant_variance * sizes.n_variants / sizes.row_norm
    crossover = max(1, math.ceil(at_bounds * math.sqrt(min(1.0, filled))))
    fewer = sizes.n_phenotypes < crossover
    words = "fewer" if fewer else "not fewer"
    reason = _CROSSOVER.format(sizes.n_phenotypes, words, crossover)
    return METHODS["reuse-cov-gauss" if fewer else "reuse-cov-proj-y"], reason


def estimator_for(method: Method, chosen: Estimator | None) -> Estimator:
    """Return the estimator chosen by `shrinkage` or ``--ridge``, or the default of the method.

    A UsageError is raised if the method prescribes its own estimator.
    """
    if chosen is None:
        return method.estimator
    if not method.estimator.is_choice:
        raise UsageError(
            f"{method.name} has its own penalty",
            where=Field("ridge" if chosen is ESTIMATORS["ridge"] else "shrinkage"),
            value=chosen,
            remedy="Leave it out, or use --method reuse-cov-gauss",
        )
    return chosen
