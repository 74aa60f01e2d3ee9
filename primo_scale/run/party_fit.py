"""Linear model from the releases of several parties. Everything here is public."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from primo_scale.errors import Field, InputError, UsageError
from primo_scale.gaussian.calibration import Cost, composed_epsilon
from primo_scale.ledger.accounts import total_cost
from primo_scale.parties.columns import MixtureSums, RandomSigns
from primo_scale.parties.fit import Floats, PartyFit, PartyMethod, fit_outcome, join_columns
from primo_scale.publication.open_release import PartyRelease, open_party_release
from primo_scale.publication.publish import open_to_readers
from primo_scale.run.fields import takes
from primo_scale.run.other_requests import PartyFitRequest
from primo_scale.storage.files import directory_published_at_end, sha256_of_file
from primo_scale.verify.document import PARTY

_PEOPLE_AT_A_TIME = 1 << 14


@dataclass(frozen=True)
class PartyModel:
    """Linear model of one released column, in the units of the columns.

    Attributes
    ----------
    outcome : str
        Column that is predicted.
    intercept : float
        Prediction where every predictor is 0.
    weights : dict of str to float
        Weight of each predictor.
    epsilon, delta : float
        What the releases of all parties together promise to one person.
    smallest_eigenvalue, floor : float
        Smallest eigenvalue of the estimated Hessian matrix, in the units of a sum over people, and
        the value that smaller eigenvalues were raised to.
    """

    outcome: str
    intercept: float
    weights: dict[str, float]
    epsilon: float
    delta: float
    smallest_eigenvalue: float
    floor: float


@dataclass(frozen=True)
class _Named:
    """Released column, its public name, and the middle and half of its range."""

    name: str
    middle: float
    half: float


@takes(PartyFitRequest)
def party_fit(request: PartyFitRequest) -> PartyModel:
    """Fit a released column to others, and write the weights and their sources.

    The model post-processes the releases and costs no privacy.

    Returns
    -------
    PartyModel
        Intercept and weight of each predictor, as in the files at `out`.

    Raises
    ------
    InputError
        A release is not valid, or the releases are not of the same people.
    UsageError
        A column is unknown, ambiguous or the outcome itself, the method does not fit the releases,
        or the predictors are linearly dependent.
    """
    parties = [open_party_release(path) for path in request.releases]
    _check_joint(parties, request.method)
    columns = _named(parties)
    indices = {column.name: index for index, column in enumerate(columns)}
    if len(indices) < len(columns):
        raise UsageError("two releases have columns of one party and name", where=Field("releases"))
    outcome = _index(indices, request.outcome, "outcome")
    others = request.predictors or [name for name in indices if name != request.outcome]
    predictors = [_index(indices, name, "predictors") for name in others]
    if outcome in predictors:
        raise UsageError("is the outcome", where=Field("predictors"), value=request.outcome)
    joined = join_columns(
        [party.values for party in parties],
        [party.scale for party in parties],
        [party.noise_sd for party in parties],
        _constant(parties[0]),
    )
    fit = fit_outcome(
        joined, outcome, predictors, debiased=request.method.is_debiased, ridge=request.ridge
    )
    model = _in_units(fit, columns[outcome], [columns[index] for index in predictors], parties)
    _write(request.out, model, parties, request.method)
    return model


def _check_joint(parties: Sequence[PartyRelease], method: PartyMethod) -> None:
    """Refuse releases that are not of the same people, rows or mixtures."""
    first = parties[0].document
    for party in parties[1:]:
        for member in ("alignment", "n_people", "mixtures"):
            if party.document[member] != first[member]:
                raise InputError(
                    f"the releases do not belong together: their {member} differs",
                    where=party.directory,
                    remedy="All parties use one roster, and one number and seed of mixtures",
                )
    if method.fits_mixtures != (first["mixtures"] is not None):
        has = "rows of people" if first["mixtures"] is None else "mixtures"
        raise UsageError(
            f"the releases hold {has}, which the method does not fit",
            where="--method",
            value=method,
            remedy="Rows take bgm or dgm; mixtures take rmgm or rmgm-debiased",
        )


def _named(parties: Sequence[PartyRelease]) -> list[_Named]:
    """Return every column with its name, or with the party before it if parties share the name."""
    counts = Counter(c["name"] for party in parties for c in party.document["columns"])
    return [
        _Named(
            c["name"] if counts[c["name"]] == 1 else f"{party.document['party']}:{c['name']}",
            (c["lower"] + c["upper"]) / 2,
            (c["upper"] - c["lower"]) / 2,
        )
        for party in parties
        for c in party.document["columns"]
    ]


def _index(indices: Mapping[str, int], name: str, field: str) -> int:
    if name not in indices:
        known = ", ".join([*indices][:9])
        raise UsageError(
            "no party released this column", where=Field(field), value=name, limit=known
        )
    return indices[name]


def _constant(party: PartyRelease) -> Floats:
    """Return the released value of a column of ones, which has no noise."""
    mixtures, n_people = party.document["mixtures"], party.document["n_people"]
    if mixtures is None:
        return np.ones(n_people)
    sums = MixtureSums(RandomSigns(mixtures["seed"], mixtures["count"]), 1)
    for start in range(0, n_people, _PEOPLE_AT_A_TIME):
        people = np.arange(start, min(start + _PEOPLE_AT_A_TIME, n_people))
        sums.add(people, np.ones((len(people), 1), dtype=np.int64))
    return np.asarray(sums.total()[:, 0] / np.sqrt(mixtures["count"]))


def _in_units(
    fit: PartyFit, outcome: _Named, predictors: Sequence[_Named], parties: Sequence[PartyRelease]
) -> PartyModel:
    """Return the model in the units of the columns, with what it promises."""
    weights = {
        column.name: float(outcome.half * weight / column.half)
        for column, weight in zip(predictors, fit.weights, strict=True)
    }
    shift = sum(weights[column.name] * column.middle for column in predictors)
    guarantees = [party.document["guarantee"] for party in parties]
    cost = total_cost(Cost(guarantee["cost"]["mu_squared"]) for guarantee in guarantees)
    delta = max(guarantee["delta"] for guarantee in guarantees)
    return PartyModel(
        outcome=outcome.name,
        intercept=float(outcome.middle + outcome.half * fit.intercept - shift),
        weights=weights,
        epsilon=composed_epsilon(cost, delta),
        delta=delta,
        smallest_eigenvalue=float(fit.eigenvalues[0]),
        floor=fit.floor,
    )


def _write(
    out: Path, model: PartyModel, parties: Sequence[PartyRelease], method: PartyMethod
) -> None:
    sources = [
        {
            "party": party.document["party"],
            "sha256": sha256_of_file(party.directory / PARTY.name),
            "public_key": party.document["signature"]["public_key"],
        }
        for party in parties
    ]
    lines = [f"intercept\t{model.intercept!r}"]
    lines += [f"{name}\t{weight!r}" for name, weight in model.weights.items()]
    content = {"method": str(method), **asdict(model), "sources": sources}
    with directory_published_at_end(out) as staging:
        (staging / "weights.tsv").write_text("term\tweight\n" + "\n".join(lines) + "\n")
        (staging / "model.json").write_text(json.dumps(content, indent=2) + "\n")
        open_to_readers(staging)
