"""Linear models from the released columns of several parties (Wu et al., Algorithms 1 and 2).

Everything here is public: it post-processes what the parties released. A column is used in units of
half its range about the middle of its bounds, and a constant column is added, which is exact.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from attrs import frozen

from primo_scale.errors import Field, InputError, UsageError
from primo_scale.gaussian.calibration import Cost, composed_epsilon
from primo_scale.ledger.accounts import total_cost
from primo_scale.parties.columns import add_to_mixtures
from primo_scale.publication.open_release import PartyRelease, open_party_release
from primo_scale.publication.publish import open_to_readers
from primo_scale.run import fields
from primo_scale.run.fields import NEEDED, Checked, option, read_fields, takes
from primo_scale.storage.files import directory_published_at_end, sha256_of_file
from primo_scale.verify.document import PARTY, Mixtures, PartyColumn

Floats = npt.NDArray[np.float64]
JoinedColumns = tuple[Floats, Floats, int]
"""Inner products of columns with the constant first, in the units of a sum over people, shape
(1 + m, 1 + m); standard deviations of the noise, 0 for the constant, shape (1 + m,); and rows."""

_ROWS_AT_A_TIME = 1 << 14


METHODS = ("bgm", "dgm", "rmgm", "rmgm-debiased")
"""Ways from released columns to weights: ``bgm`` and ``dgm`` fit rows, without and with the
correction for the noise; ``rmgm`` fits mixtures as Wu et al. do, and ``rmgm-debiased`` corrects
them for the noise too."""
DEBIASED = ("dgm", "rmgm-debiased")


@frozen(slots=False, kw_only=True, eq=False, repr=False, field_transformer=read_fields)
class PartyFitRequest(Checked):
    """Linear model from the releases of several parties. It costs no privacy.

    Attributes
    ----------
    releases
        Release of one party. Repeatable.
    outcome
        Column to predict, or PARTY:COLUMN.
    predictors
        Columns to predict with (default: all others).
    method
        Method of the fit: for rows bgm, or dgm, which corrects for the noise; for mixtures rmgm
        or rmgm-debiased.
    ridge
        Penalty, as a sum over people (default: small eigenvalues are raised).
    out
        Directory to create, with weights.tsv and model.json.
    """

    releases: tuple[Path, ...] = option(
        fields.several(fields.PATH, repeats=True), default=NEEDED, metavar="DIR"
    )
    outcome: str = option(fields.TEXT, default=NEEDED)
    predictors: tuple[str, ...] | None = option(fields.NAMES)
    method: str = option(fields.choice(METHODS), default=NEEDED)
    ridge: float | None = option(fields.number("[0, inf)"))
    out: Path = option(fields.PATH, default=NEEDED)


def join_columns(parties: Sequence[PartyRelease], constant: Floats) -> JoinedColumns:
    """Return the inner products of released columns, the noise on them, and the number of rows.

    `constant` is the released column of ones: 1 for rows, ``sum of signs / sqrt(k)`` for mixtures.
    """
    widths = [party.values.shape[1] for party in parties]
    gram = np.zeros((1 + sum(widths),) * 2)
    for start in range(0, len(constant), _ROWS_AT_A_TIME):
        rows = slice(start, start + _ROWS_AT_A_TIME)
        values = [party.values[rows] / party.scale for party in parties]
        block = np.column_stack([constant[rows], *values])
        gram += block.T @ block
    noise_sd = [0.0, *(party.noise_sd for party in parties)]
    return gram, np.repeat(noise_sd, [1, *widths]), len(constant)


def fit_outcome(
    joined: JoinedColumns,
    outcome: int,
    predictors: Sequence[int],
    *,
    debiased: bool,
    ridge: float | None = None,
) -> tuple[Floats, float, float]:
    """Return the intercept and the weights, the smallest eigenvalue, and the floor of eigenvalues.

    The weights are of columns in units of half their range about the middle.

    De-biasing subtracts ``rows * sd^2`` from the diagonal. The matrix can then have eigenvalues
    near zero or below, whose inverses destroy the weights (Wu et al., section 4.1). Eigenvalues
    below the noise of the matrix are therefore raised to it. If `ridge` is given, it is added to
    all eigenvalues instead, in the units of a sum over people. `outcome` and `predictors` are
    indices among the columns without the constant. Linearly dependent predictors are refused.
    """
    gram, noise_sd, n_rows = joined
    used = np.array([0, *(1 + index for index in predictors)])
    variance = noise_sd[used] ** 2
    hessian = gram[np.ix_(used, used)]
    if debiased:
        hessian = hessian - n_rows * np.diag(variance)
    eigenvalues, vectors = np.linalg.eigh(hessian)
    floor = 0.0 if ridge is not None or not debiased else _noise_norm(hessian, variance, n_rows)
    raised = np.maximum(eigenvalues, floor) + (ridge or 0.0)
    if raised[0] <= len(used) * np.finfo(np.float64).eps * raised[-1]:
        raise UsageError(
            "the released columns do not determine the weights of so many predictors",
            where="--predictors",
            value=len(predictors),
            remedy="Name fewer or other --predictors, or give --ridge above 0",
        )
    return vectors @ (vectors.T @ gram[used, 1 + outcome] / raised), float(eigenvalues[0]), floor


def _noise_norm(hessian: Floats, variance: Floats, n_rows: int) -> float:
    """Return about the spectral norm of the noise in a de-biased Hessian matrix.

    An entry (i, j) has the variance ``rows s_i^2 s_j^2 + s_i^2 H_jj + s_j^2 H_ii``, and a
    symmetric matrix of m rows with entries of variance v has a norm of about ``2 sqrt(m v)``.
    """
    own = np.clip(np.diag(hessian), 0.0, None)
    entries = n_rows * np.outer(variance, variance)
    entries += np.outer(variance, own) + np.outer(own, variance)
    return 2 * math.sqrt(float(entries.sum(axis=1).max()))


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

    def index(name: str, field: str) -> int:
        if name not in indices:
            what, known = "no party released this column", ", ".join([*indices][:9])
            raise UsageError(what, where=Field(field), value=name, limit=known)
        return indices[name]

    outcome = index(request.outcome, "outcome")
    others = request.predictors or [name for name in indices if name != request.outcome]
    predictors = [index(name, "predictors") for name in others]
    if outcome in predictors:
        raise UsageError("is the outcome", where=Field("predictors"), value=request.outcome)
    joined = join_columns(parties, _constant(parties[0]))
    solution, smallest, floor = fit_outcome(
        joined, outcome, predictors, debiased=request.method in DEBIASED, ridge=request.ridge
    )
    target, used = columns[outcome], [columns[index] for index in predictors]
    weights = {
        column.name: float(_half(target) * weight / _half(column))
        for column, weight in zip(used, solution[1:], strict=True)
    }
    shift = sum(weights[column.name] * _middle(column) for column in used)
    guarantees = [party.document["guarantee"] for party in parties]
    cost = total_cost(Cost(guarantee["cost"]["mu_squared"]) for guarantee in guarantees)
    delta = max(guarantee["delta"] for guarantee in guarantees)
    model = PartyModel(
        outcome=target.name,
        intercept=float(_middle(target) + _half(target) * solution[0] - shift),
        weights=weights,
        epsilon=composed_epsilon(cost, delta),
        delta=delta,
        smallest_eigenvalue=smallest,
        floor=floor,
    )
    _write(request.out, model, parties, request.method)
    return model


def _middle(column: PartyColumn) -> float:
    return (column.lower + column.upper) / 2


def _half(column: PartyColumn) -> float:
    return (column.upper - column.lower) / 2


def _check_joint(parties: Sequence[PartyRelease], method: str) -> None:
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
    if method.startswith("rmgm") != (first["mixtures"] is not None):
        has = "rows of people" if first["mixtures"] is None else "mixtures"
        raise UsageError(
            f"the releases hold {has}, which the method does not fit",
            where="--method",
            value=method,
            remedy="Rows take bgm or dgm; mixtures take rmgm or rmgm-debiased",
        )


def _named(parties: Sequence[PartyRelease]) -> list[PartyColumn]:
    """Return every column with its name, or with the party before it if parties share the name."""
    counts = Counter(c["name"] for party in parties for c in party.document["columns"])
    return [
        PartyColumn(
            c["name"] if counts[c["name"]] == 1 else f"{party.document['party']}:{c['name']}",
            c["lower"],
            c["upper"],
        )
        for party in parties
        for c in party.document["columns"]
    ]


def _constant(party: PartyRelease) -> Floats:
    """Return the released value of a column of ones, which has no noise."""
    stated, n_people = party.document["mixtures"], party.document["n_people"]
    if stated is None:
        return np.ones(n_people)
    mixtures = Mixtures(stated["count"], stated["seed"])
    sums = np.zeros((mixtures.count, 1), dtype=np.int64)
    for start in range(0, n_people, _ROWS_AT_A_TIME):
        people = np.arange(start, min(start + _ROWS_AT_A_TIME, n_people))
        add_to_mixtures(sums, mixtures, people, np.ones((len(people), 1), dtype=np.int64))
    return np.asarray(sums[:, 0] / np.sqrt(mixtures.count))


def _write(out: Path, model: PartyModel, parties: Sequence[PartyRelease], method: str) -> None:
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
    content = {"method": method, **asdict(model), "sources": sources}
    with directory_published_at_end(out) as staging:
        (staging / "weights.tsv").write_text("term\tweight\n" + "\n".join(lines) + "\n")
        (staging / "model.json").write_text(json.dumps(content, indent=2) + "\n")
        open_to_readers(staging)
