"""The largest shift by one person that verification computes, against pairs of neighbours."""

import dataclasses
import math
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from support import release_examples
from support.documents import put, value_at
from support.release_edits import problems_in, query
from support.release_examples import (
    BLOCK_NORMS,
    MODES,
    PHENOTYPE_NORM,
    ROW_NORM,
    Mode,
    example_document,
)

from primo_scale.verify.guarantee import guarantee_findings
from primo_scale.verify.theorems import (
    PARTS,
    THEOREMS,
    claims_of,
    joint_shift,
    sensitivity,
    subsample_shift,
)

SIZES = (3, 4)  # variants of the two blocks
EDGES = ((0, 3), (3, 7))
N_PHENOTYPES = 2


@dataclass(frozen=True)
class Row:
    x: np.ndarray
    y: np.ndarray


NOBODY = Row(np.zeros(sum(SIZES)), np.zeros(N_PHENOTYPES))


def statistics(row: Row) -> dict[str, np.ndarray]:
    return {
        "phenotype_cross": np.outer(row.x, row.y),
        "phenotype_gram": np.outer(row.y, row.y),
    }


def squared_shift(document: dict[str, Any], one: Row, other: Row, *, gram: bool = True) -> float:
    """Return ``sum (change / sigma)^2`` over all noisy numbers except counts and eigenvalue."""
    queries = {each["name"]: each for each in document["mechanism"]["queries"]}
    before, after = statistics(one), statistics(other)
    total = 0.0
    for name in before.keys() & queries.keys():
        total += noisy_numbers(before[name] - after[name], queries[name], 0)
    if gram and "gram" in queries:
        for block, (start, stop) in enumerate(EDGES):
            change = np.outer(one.x[start:stop], one.x[start:stop])
            change -= np.outer(other.x[start:stop], other.x[start:stop])
            index = block if len(queries["gram"]["sigma"]) > 1 else 0
            copies = document["mechanism"]["gram_copies"]
            total += copies * noisy_numbers(change, queries["gram"], index)
    return total


def noisy_numbers(change: np.ndarray, noisy: dict[str, Any], index: int) -> float:
    if noisy["off_diagonal_sigma"] is None:
        return float((change**2).sum()) / noisy["sigma"][index] ** 2
    beside = change[np.triu_indices(len(change), k=1)]
    diagonal = float((change.diagonal() ** 2).sum()) / noisy["sigma"][index] ** 2
    return diagonal + float((beside**2).sum()) / noisy["off_diagonal_sigma"][index] ** 2


def clipped(row: Row, kind: Mode) -> Row:
    """Return a row clipped as in docs/maths/planning.md, without rounding."""
    x, y = row.x.copy(), row.y
    if kind.privacy == "label":
        longest = math.sqrt(PHENOTYPE_NORM) * min(1, math.sqrt(ROW_NORM) / norm(x))
        return Row(x, y * min(1, longest / norm(y)))
    for (start, stop), bound in zip(EDGES, kind.block_norms or (), strict=False):
        x[start:stop] *= min(1, math.sqrt(bound) / norm(x[start:stop]))
    x *= min(1, math.sqrt(ROW_NORM) / norm(x))
    return Row(x, y * min(1, math.sqrt(PHENOTYPE_NORM) / norm(y)))


def norm(vector: np.ndarray) -> float:
    return max(float(np.linalg.norm(vector)), 1e-300)


def neighbours(rng: np.random.Generator, kind: Mode, trials: int) -> list[tuple[Row, Row]]:
    """Return pairs of rows that the promise must hide, some of them nearly parallel and long."""
    pairs = []
    for _ in range(trials):
        one, other = (random_row(rng) for _ in range(2))
        mix = rng.choice([0.0, 0.3, 0.75, 1.0])
        sign = rng.choice([-1.0, 1.0])
        other = Row(
            mix * one.x + (1 - mix) * other.x,
            sign * (mix * one.y + (1 - mix) * other.y),
        )
        if kind.privacy == "label":
            other = dataclasses.replace(other, x=one.x)
        one, other = clipped(one, kind), clipped(other, kind)
        if kind.adjacency == "add-remove":
            other = dataclasses.replace(one, y=NOBODY.y) if kind.privacy == "label" else NOBODY
        pairs.append((one, other))
    return pairs


def random_row(rng: np.random.Generator) -> Row:
    scale = 10 ** rng.uniform(2.5, 4)
    x = rng.normal(size=sum(SIZES)) * rng.choice([0.0, 0.3, 1.0], size=sum(SIZES)) * scale
    return Row(x, rng.normal(size=N_PHENOTYPES) * scale)


@pytest.mark.parametrize("mode", MODES)
def test_no_pair_of_neighbours_moves_a_release_further_than_verification_says(mode):
    kind, document = MODES[mode], example_document(mode)
    claims = claims_of(document)
    whole = kind.subsample is None
    found = [
        squared_shift(document, one, other, gram=whole)
        for one, other in neighbours(np.random.default_rng(11), kind, 400)
    ]
    assert max(found) <= joint_shift(claims) * (1 + 1e-9)
    assert max(found) > 0.3 * joint_shift(claims)  # the search is not idle
    if not whole:
        gram = [
            squared_shift(document, one, other) - squared_shift(document, one, other, gram=False)
            for one, other in neighbours(np.random.default_rng(12), kind, 400)
        ]
        assert max(gram) <= subsample_shift(claims) * (1 + 1e-9)


TILT = 1.5 / 2  # the examples' split, halved: the cosine of the worst two genotype rows


def along(length_squared: float, size: int, *, cosine: float = 1.0) -> np.ndarray:
    """Return a vector in the plane of the first two axes, at an angle to the first."""
    vector = np.zeros(size)
    vector[:2] = cosine, math.sqrt(1 - cosine**2)
    return vector * math.sqrt(length_squared)


X = along(ROW_NORM, sum(SIZES))
TILTED = along(ROW_NORM, sum(SIZES), cosine=TILT)
Y = along(PHENOTYPE_NORM, N_PHENOTYPES)
FULL = Row(X, Y)
WORST = {
    "full": (FULL, Row(TILTED, -Y)),
    "naive": (FULL, Row(TILTED, -Y)),
    "ada-ssp": (FULL, Row(TILTED, -Y)),
    "full-add-remove": (FULL, NOBODY),
    "label": (FULL, Row(X, -Y)),
    "label-add-remove": (FULL, Row(X, 0 * Y)),
    "feature": (FULL, Row(-TILTED, Y)),
    "feature-add-remove": (FULL, NOBODY),
    "subsampled": (FULL, Row(X, -Y)),
}


@pytest.mark.parametrize("mode", WORST)
def test_the_worst_neighbours_reach_the_bound(mode):
    document, (one, other) = example_document(mode), WORST[mode]
    found = squared_shift(document, one, other, gram=mode != "subsampled")
    assert found == pytest.approx(joint_shift(claims_of(document)), rel=1e-9)


def test_the_worst_neighbours_reach_the_bound_with_blocks(monkeypatch):
    """The rows are (4, 3) and (3, 4) in two blocks of bound 16, as in docs/maths/sensitivity.md."""
    step = 120_000
    monkeypatch.setattr(release_examples, "ROW_NORM", 25 * step)
    rows = np.zeros((2, sum(SIZES)))
    rows[:, [0, 3]] = (4, 3), (3, 4)
    reach_the_bound("full-blocks", (16 * step,) * 2, math.sqrt(step) * rows, monkeypatch)


def test_the_worst_neighbours_reach_the_bound_where_blocks_fill_the_row(monkeypatch):
    """Both blocks attain their bounds, at the angle that is worst for dense X'X."""
    bounds = (ROW_NORM - 1_000_000, 1_000_000)
    parts = zip(bounds, SIZES, strict=True)
    blocks = [[along(b, size, cosine=cosine) for cosine in (1.0, TILT)] for b, size in parts]
    reach_the_bound("full-blocks-within-the-row", bounds, np.hstack(blocks), monkeypatch)


def reach_the_bound(mode: str, block_norms: tuple[int, ...], rows: np.ndarray, monkeypatch) -> None:
    monkeypatch.setitem(MODES, mode, dataclasses.replace(MODES[mode], block_norms=block_norms))
    document = example_document(mode)
    found = squared_shift(document, Row(rows[0], Y), Row(rows[1], -Y))
    assert found == pytest.approx(joint_shift(claims_of(document)), rel=1e-9)


def problems(document: dict[str, Any]) -> str:
    return " | ".join(problems_in(guarantee_findings(document)))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("part", [*PARTS, "adjustment"])
def test_no_other_part_may_go_without_noise(mode, part):
    """Exact parts follow from the privacy unit; leaving out the noise of another is found."""
    document = example_document(mode)
    mechanism = document["mechanism"]
    if part in mechanism["exact_parts"]:
        mechanism["exact_parts"].remove(part)
        assert "queries: without noise are" in problems(document)
        return
    mechanism["queries"] = [query for query in mechanism["queries"] if query["name"] != part]
    assert f"queries: {part} is missing" in problems(document)
    if part in PARTS:
        mechanism["exact_parts"].append(part)
        assert "queries: without noise are" in problems(document)


@pytest.mark.parametrize("mode", [mode for mode in MODES if MODES[mode].adjacency == "add-remove"])
def test_noise_for_add_remove_is_not_enough_for_replace_one(mode):
    document = example_document(mode)
    document["guarantee"]["adjacency"] = "replace-one"
    cohort = document["cohort"]
    if cohort["n_samples"] is None:
        cohort["n_samples"], cohort["nominal_n"] = cohort["nominal_n"], None
        counts = query(document, "observed")
        counts["shape"], counts["sensitivity"] = [2], [math.sqrt(2)]
    document["mechanism"]["calibration"] = {"label": "label"}.get(
        document["guarantee"]["privacy"],
        "by-block" if MODES[mode].block_norms == BLOCK_NORMS else "stacked",
    )
    assert "mu: mu is" in problems(document)


@pytest.mark.parametrize(
    ("mode", "path", "value", "what"),
    [
        ("full-blocks", "mechanism.block_norms_squared", BLOCK_NORMS[:1], "1 block norms, not 2"),
        ("full", "guarantee.cost.delta", 1e-9, "only a subsample has a separate cost"),
        ("naive", "mechanism.gram_copies", 3, "mu: mu is"),
        *((mode, "guarantee.privacy", other, "queries: without noise are")
          for mode, other in permutations(("full", "label", "feature"), 2)),
        *(("subsampled", "mechanism.subsample", size, f"X'X of the subsample costs {what}")
          for what, sizes in (("less", (1, 50, 99)), ("more", (101, 500, 999))) for size in sizes),
        *(("subsampled", "mechanism.subsample", size, f"a subsample of {size} among 1000")
          for size in (1000, 1001)),
        # The noise must be that of the stated share, which each method chooses.
        *(("ada-ssp", "mechanism.eigenvalue_share", share, what)
          for share, what in ((0.0, "queries:"), (1.0, "method:"), (0.2, "shares:"))),
    ],
)  # fmt: skip
def test_a_claim_that_no_theorem_covers_is_found(mode, path, value, what):
    assert what in problems(put(example_document(mode), path, value))


@pytest.mark.parametrize(
    ("path", "check"),
    [
        ("guarantee.mu", "mu: mu is"),
        ("guarantee.cost.mu_squared", "mu: mu^2 is"),
        ("mechanism.queries.0.sensitivity.0", "sensitivities: gram is"),
    ],
)
def test_a_difference_of_a_millionth_is_found(path, check):
    document = example_document()
    assert check in problems(put(document, path, value_at(document, path) * (1 + 1e-6)))


@pytest.mark.parametrize(
    ("mode", "n_samples", "nominal_n"),
    [("full-add-remove", 1000, 1000), ("full-add-remove", None, None),
     ("full-add-remove", 1000, None), ("full", 1000, 1000), ("full", None, 1000)],
)  # fmt: skip
def test_a_private_number_of_people_must_not_be_stated(mode, n_samples, nominal_n):
    document = example_document(mode)
    document["cohort"] |= {"n_samples": n_samples, "nominal_n": nominal_n}
    assert "the number of people must be private" in problems(document)


@pytest.mark.parametrize("mode", MODES)
def test_a_calibration_that_does_not_apply_is_found(mode):
    document = example_document(mode)
    for calibration in THEOREMS.keys() - {MODES[mode].calibration}:
        assert "mechanism: " in problems(put(document, "mechanism.calibration", calibration))


def test_subsampling_is_proved_for_replace_one_alone():
    document = example_document("subsampled")
    document["guarantee"]["adjacency"] = "add-remove"
    document["cohort"] |= {"n_samples": None, "nominal_n": 1000}
    assert "amplification is proved only for replace-one" in problems(document)


def test_the_papers_amplification_would_be_found():
    """PRIMO's Algorithm 4 takes eps_1 = (n/s) eps/2: docs/maths/papers.md, item 3."""
    document = example_document("subsampled")
    gram = query(document, "gram")
    right, wrong = math.log1p(math.expm1(2.5) * 10), 10 * 2.5
    gram["sigma"][0] *= right / wrong
    gram["off_diagonal_sigma"][0] *= right / wrong
    assert "X'X of the subsample costs more" in problems(document)


@pytest.mark.parametrize("mode", ["full-blocks", "full-add-remove-blocks"])
def test_a_block_is_bounded_by_the_row_as_well(mode, monkeypatch):
    """The noise on the first block is that for the row's bound, which is the smaller one here."""
    monkeypatch.setattr(release_examples, "ROW_NORM", max(BLOCK_NORMS) // 2)
    document = example_document(mode)
    assert problems(document) == ""
    assert claims_of(document).block_bounds == (max(BLOCK_NORMS) // 2,) * 2


@pytest.mark.parametrize("mode", MODES)
def test_half_of_the_noise_on_any_statistic_is_a_longer_shift(mode):
    """No statistic of the bundle is left out of mu, however small its part is."""
    claims = claims_of(example_document(mode))
    for name in set(claims.sigma) & set(PARTS[:-1]):
        sigma = {**claims.sigma, name: tuple(s / 2 for s in claims.sigma[name])}
        less = dataclasses.replace(claims, sigma=sigma)
        alone = claims.subsample is not None and name == "gram"
        shift = subsample_shift if alone else joint_shift
        assert shift(less) > 1.01 * shift(claims), name


@pytest.mark.parametrize("split", [None, -1.0, 0.0, 2.001])
def test_a_split_without_proof_has_no_finite_shift(split):
    claims = claims_of(example_document("full-blocks"))
    assert joint_shift(dataclasses.replace(claims, split=split)) == math.inf


def test_a_repeated_statistic_is_found():
    document = example_document("full")
    document["mechanism"]["queries"] *= 2
    assert "queries: a query is repeated" in problems(document)


def test_every_other_measured_statistic_must_be_listed():
    document, plain, name = example_document("ada-ssp"), example_document(), "smallest_eigenvalue"
    measured = document["mechanism"]["queries"]
    others = [each for each in measured if each["name"] != name]
    assert f"{name} is missing" in problems(put(document, "mechanism.queries", others))
    queries = [*plain["mechanism"]["queries"], query(document, name)]
    too_much = put(plain, "mechanism.queries", queries)
    assert f"{name} does not belong here" in problems(too_much)


def test_the_change_of_an_eigenvalue_covers_everybody_alive_where_the_number_is_private():
    document = example_document("ada-ssp-add-remove")
    assert problems(document) == ""
    claims, people = claims_of(document), document["cohort"]["nominal_n"]
    norm = max(claims.block_bounds)
    eigenvalue = query(document, "smallest_eigenvalue")
    eigenvalue["sensitivity"] = [norm + 1 + 32 * claims.largest_block * people * norm / 2**53]
    assert "sensitivities: smallest_eigenvalue is" in problems(document)


@pytest.mark.parametrize(("people", "largest"), [(500_000, 20_000), (2**31, 1_701)])
def test_the_change_of_an_eigenvalue_has_the_error_of_both_computed_ones(people, largest):
    """docs/maths/sensitivity.md, Theorem 1 (b), at sizes for which the error matters."""
    claims = claims_of(example_document("ada-ssp"))
    claims = dataclasses.replace(claims, people=people, largest_block=largest)
    norm = max(claims.block_bounds)
    (found,) = sensitivity(claims, "smallest_eigenvalue")
    solver_error = 16 * largest * people * norm / 2**53
    assert found == pytest.approx(norm + 1 + 2 * solver_error, rel=1e-12)
