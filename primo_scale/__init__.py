"""Differentially private polygenic-score weights from biobank-scale genotypes.

`release` publishes weights from genotype files, `ingest`, `accumulate` and `finalize` are its three
stages, and `plan` forecasts it. `open_release` reads a release, `verify` checks one,
`open_genotypes` reads a genotype store, and `from_pandas_plink` makes one from an array.
`party_roster`, `party_release` and `party_fit` serve several parties who hold columns of the same
people. `ledger` is a module that shows, sets and verifies the budgets of cohorts. `evaluate`
measures the accuracy of scores, and `forecast` predicts it from a public panel and numbers alone.

Most of these functions take a request, a frozen object with every option. `attrs.evolve`, and not
`dataclasses.replace`, returns a request with other values. Anticipated errors are subclasses of
`PrimoError`; their messages call an option by its name on the command line, such as ``--ref-freq``
for `ref_freq`. A value of the wrong type is refused by the name of the field. Runs in several
threads of one process take turns.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from primo_scale.version import __version__

if TYPE_CHECKING:
    from primo_scale import ledger
    from primo_scale.errors import (
        BudgetRefused,
        InputError,
        InterruptedRun,
        PrimoError,
        ResourceError,
        UsageError,
    )
    from primo_scale.evaluation.results import Evaluation
    from primo_scale.genotypes.pandas_plink import from_pandas_plink
    from primo_scale.genotypes.store import open_genotypes
    from primo_scale.publication.open_release import (
        PartyRelease,
        Release,
        open_party_release,
        open_release,
    )
    from primo_scale.publication.verify import Verification, verify
    from primo_scale.run.evaluation import EvaluationRequest, evaluate
    from primo_scale.run.execution import Execution
    from primo_scale.run.forecast import ForecastRow, forecast
    from primo_scale.run.forecast_request import ForecastRequest
    from primo_scale.run.genotype_files import GenotypeFiles
    from primo_scale.run.operations import accumulate, finalize, ingest, plan, release
    from primo_scale.run.party_fit import PartyModel, party_fit
    from primo_scale.run.party_operations import party_release, party_roster
    from primo_scale.run.party_requests import PartyFitRequest, PartyReleaseRequest
    from primo_scale.run.request import AccumulateRequest, FinalizeRequest, ReleaseRequest
    from primo_scale.run.request_parts import Fit, Model, OutcomeTables, Privacy

_NAMES = {
    "errors": (
        "BudgetRefused",
        "InputError",
        "InterruptedRun",
        "PrimoError",
        "ResourceError",
        "UsageError",
    ),
    "evaluation.results": ("Evaluation",),
    "genotypes.store": ("open_genotypes",),
    "genotypes.pandas_plink": ("from_pandas_plink",),
    "publication.open_release": ("PartyRelease", "Release", "open_party_release", "open_release"),
    "publication.verify": ("Verification", "verify"),
    "run.evaluation": ("EvaluationRequest", "evaluate"),
    "run.execution": ("Execution",),
    "run.forecast": ("ForecastRow", "forecast"),
    "run.forecast_request": ("ForecastRequest",),
    "run.genotype_files": ("GenotypeFiles",),
    "run.operations": ("accumulate", "finalize", "ingest", "plan", "release"),
    "run.party_fit": ("PartyModel", "party_fit"),
    "run.party_operations": ("party_release", "party_roster"),
    "run.party_requests": ("PartyFitRequest", "PartyReleaseRequest"),
    "run.request": ("AccumulateRequest", "FinalizeRequest", "ReleaseRequest"),
    "run.request_parts": ("Fit", "Model", "OutcomeTables", "Privacy"),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}
__all__ = [
    "AccumulateRequest",
    "BudgetRefused",
    "Evaluation",
    "EvaluationRequest",
    "Execution",
    "FinalizeRequest",
    "Fit",
    "ForecastRequest",
    "ForecastRow",
    "GenotypeFiles",
    "InputError",
    "InterruptedRun",
    "Model",
    "OutcomeTables",
    "PartyFitRequest",
    "PartyModel",
    "PartyRelease",
    "PartyReleaseRequest",
    "PrimoError",
    "Privacy",
    "Release",
    "ReleaseRequest",
    "ResourceError",
    "UsageError",
    "Verification",
    "__version__",
    "accumulate",
    "evaluate",
    "finalize",
    "forecast",
    "from_pandas_plink",
    "ingest",
    "ledger",
    "open_genotypes",
    "open_party_release",
    "open_release",
    "party_fit",
    "party_release",
    "party_roster",
    "plan",
    "release",
    "verify",
]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: a recipient of a release has no Dask."""
    if name == "ledger":
        return import_module(f"{__name__}.ledger")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
