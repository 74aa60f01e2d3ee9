"""Differentially private polygenic-score weights from biobank-scale genotypes.

`release` publishes weights from genotype files, `ingest`, `accumulate` and `finalize` are its three
stages, and `plan` forecasts it. `open_release` reads a release, `verify` checks one,
`open_genotypes` reads a genotype store, and `from_pandas_plink` makes one from an array.
`party_roster`, `party_release` and `party_fit` serve several parties who hold columns of the same
people. `ledger` is a module that shows, sets and verifies the budgets of cohorts. `evaluate`
measures the accuracy of scores, and `forecast` predicts it from a public panel and numbers alone.

Most of these functions take their options as keywords, or a request: a frozen object with every
option, which is checked when it is made. `attrs.evolve`, and not `dataclasses.replace`, returns a
request with other values. Anticipated errors are subclasses of `PrimoError`, and name a field as
Python does. Runs in several threads of one process take turns.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from primo_scale.version import __version__

if TYPE_CHECKING:
    from primo_scale import ledger as ledger
    from primo_scale.errors import BudgetRefused as BudgetRefused
    from primo_scale.errors import InputError as InputError
    from primo_scale.errors import InterruptedRun as InterruptedRun
    from primo_scale.errors import PrimoError as PrimoError
    from primo_scale.errors import ResourceError as ResourceError
    from primo_scale.errors import UsageError as UsageError
    from primo_scale.genotypes.pandas_plink import from_pandas_plink as from_pandas_plink
    from primo_scale.genotypes.store import open_genotypes as open_genotypes
    from primo_scale.parties.fit import PartyFitRequest as PartyFitRequest
    from primo_scale.parties.fit import PartyModel as PartyModel
    from primo_scale.parties.fit import party_fit as party_fit
    from primo_scale.parties.release import PartyReleaseRequest as PartyReleaseRequest
    from primo_scale.parties.release import party_release as party_release
    from primo_scale.parties.release import party_roster as party_roster
    from primo_scale.publication.open_release import PartyRelease as PartyRelease
    from primo_scale.publication.open_release import Release as Release
    from primo_scale.publication.open_release import open_party_release as open_party_release
    from primo_scale.publication.open_release import open_release as open_release
    from primo_scale.run.evaluation import Evaluation as Evaluation
    from primo_scale.run.evaluation import evaluate as evaluate
    from primo_scale.run.operations import accumulate as accumulate
    from primo_scale.run.operations import finalize as finalize
    from primo_scale.run.operations import ingest as ingest
    from primo_scale.run.operations import plan as plan
    from primo_scale.run.operations import release as release
    from primo_scale.run.options import AccumulateRequest as AccumulateRequest
    from primo_scale.run.options import EvaluationRequest as EvaluationRequest
    from primo_scale.run.options import FinalizeRequest as FinalizeRequest
    from primo_scale.run.options import ForecastRequest as ForecastRequest
    from primo_scale.run.options import IngestRequest as IngestRequest
    from primo_scale.run.options import ReleaseRequest as ReleaseRequest
    from primo_scale.run.plan import ForecastRow as ForecastRow
    from primo_scale.run.plan import forecast as forecast
    from primo_scale.verify.release import Verification as Verification
    from primo_scale.verify.release import verify as verify

_NAMES = {
    "errors": "BudgetRefused InputError InterruptedRun PrimoError ResourceError UsageError",
    "genotypes.store": "open_genotypes",
    "genotypes.pandas_plink": "from_pandas_plink",
    "publication.open_release": "PartyRelease Release open_party_release open_release",
    "verify": "Verification",
    "run.evaluation": "Evaluation evaluate",
    "run.operations": "accumulate finalize ingest plan release",
    "run.plan": "ForecastRow forecast",
    "run.options": "AccumulateRequest EvaluationRequest FinalizeRequest ForecastRequest "
    "IngestRequest ReleaseRequest",
    "parties.fit": "PartyFitRequest PartyModel party_fit",
    "parties.release": "PartyReleaseRequest party_release party_roster",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = ["__version__", "ledger", "verify", *_HOMES]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: a recipient of a release has no Dask."""
    if name in ("ledger", "verify"):  # `verify` is a package that can be called
        return import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
