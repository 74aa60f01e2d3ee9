"""A party's release from its table to the joint model: values, payment, verification, crashes."""

import json
import shutil
from contextlib import nullcontext
from datetime import UTC, datetime
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import kstest
from support.crash import KILLED, STEPS, killed_at, steps_passed
from support.documents import put, value_at
from support.noise_checks import RISK, correlated, has_scale
from support.party_examples import N_PEOPLE, SEED, make_parties, request_of, signs_of, write_table
from support.stores import flip_a_bit
from support.tiers import thinned

from primo_scale.errors import BudgetRefused, InputError, UsageError
from primo_scale.gaussian import calibration
from primo_scale.ledger.accounts import ChargeState
from primo_scale.ledger.ledger import Ledger, PaymentStep
from primo_scale.outcomes.coding import BOUNDED_UNIT
from primo_scale.parties import release as party_releases
from primo_scale.parties.columns import read_roster
from primo_scale.parties.fit import party_fit
from primo_scale.parties.release import party_release, party_roster
from primo_scale.privacy import payment
from primo_scale.publication.open_release import open_party_release
from primo_scale.storage.files import sha256_of_file
from primo_scale.verify.document import PARTY, Mixtures, serialise
from primo_scale.verify.files import Signer, signature_of
from primo_scale.verify.release import verify
from primo_scale.verify.theorems import epsilon_of

OF_STATISTICS = (PaymentStep.ADJUSTMENT_STORED, PaymentStep.BLOCK_WRITTEN)
PARTY_STEPS = tuple(step for step in STEPS if step not in OF_STATISTICS)


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    directory = tmp_path_factory.mktemp("parties")
    parties = make_parties(directory)
    return directory, parties, [party_release(request_of(one, directory)) for one in parties]


def exact_units(directory, party):
    """Return the coded values in the order of the roster, read by NumPy alone."""
    people, *_ = zip(
        *(line.split() for line in party.table.read_text().splitlines()[1:]), strict=True
    )
    values = np.loadtxt(party.table, skiprows=1, usecols=range(1, 1 + len(party.columns)), ndmin=2)
    rows = (directory / "bounds.txt").read_text().splitlines()[1:]
    limits = {name: (float(low), float(high)) for name, low, high in map(str.split, rows)}
    lower, upper = np.array([limits[name] for name in party.columns]).T
    u = (np.clip(values, lower, upper) - (lower + upper) / 2) / ((upper - lower) / 2)
    ordered = np.empty_like(u)
    roster = read_roster(directory / "roster", directory / "key")
    ordered[roster.positions(people)] = np.trunc(u * BOUNDED_UNIT)
    return ordered


def check_noise(noise, sigma):
    """Reject noise of another scale or shape; each check rejects correct noise with `RISK`."""
    assert has_scale(noise, sigma)
    assert kstest(noise.ravel() / sigma, "norm").pvalue > RISK


def test_values_are_exact_values_plus_noise_of_the_stated_scale(released):
    directory, parties, releases = released
    for party, release in zip(parties, releases, strict=True):
        noise = release.values - exact_units(directory, party)
        sigma = release.document["mechanism"]["sigma"]
        check_noise(noise, sigma)
        with pytest.raises(AssertionError):
            check_noise(noise, 0.8 * sigma)
    assert not correlated(*(release.values[:, 0] for release in releases[1:]))


def test_every_piece_of_rows_has_its_own_noise(tmp_path, monkeypatch):
    monkeypatch.setattr(party_releases, "_DRAWS_AT_A_TIME", N_PEOPLE // 2)
    parties = make_parties(tmp_path)
    release = party_release(request_of(parties[1], tmp_path))
    noise = release.values - exact_units(tmp_path, parties[1])
    check_noise(noise, release.document["mechanism"]["sigma"])
    assert not correlated(*np.split(noise[:, 0], 2))


def test_mixtures_are_signed_sums_plus_noise(tmp_path):
    parties = make_parties(tmp_path)
    request = request_of(parties[0], tmp_path, mixtures=300, seed=SEED, person_columns=4)
    release = party_release(request)
    signs = signs_of(Mixtures(300, SEED), np.arange(N_PEOPLE))
    exact = signs.T @ exact_units(tmp_path, parties[0])
    check_noise(release.values - exact, release.document["mechanism"]["sigma"])
    assert verify(request.out, ledger=request.ledger).ok


def test_the_ledger_has_one_published_charge_and_a_retry_pays_nothing(released):
    directory, parties, releases = released
    before = (releases[0].directory / "party.json").read_bytes()
    again = party_release(request_of(parties[0], directory))
    assert (again.directory / "party.json").read_bytes() == before
    with Ledger(directory / "ledger-one") as ledger:
        (balance,) = ledger.balances()
    assert [charge.state for charge in balance.charges] == [ChargeState.PUBLISHED]
    assert not [*(directory / "release-one.work").rglob("*.key")]  # it would reveal the noise
    assert verify(again.directory, ledger=directory / "ledger-one").ok
    with pytest.raises(InputError, match="is not the result of this request"):
        party_release(request_of(parties[0], directory, epsilon=4.0))
    with pytest.raises(BudgetRefused):
        party_release(request_of(parties[0], directory, out=directory / "second"))


def test_other_values_never_get_the_noise_that_others_paid_for(tmp_path):
    """The difference of the two releases would be that of the values, without noise."""
    parties = make_parties(tmp_path)
    request = request_of(parties[1], tmp_path)
    party_release(request)
    shutil.rmtree(request.out)
    header, first, *rest = parties[1].table.read_text().splitlines()
    parties[1].table.write_text("\n".join([header, f"{first.split()[0]} 0", *rest]) + "\n")
    with pytest.raises(BudgetRefused, match="does not cover"):
        party_release(request)
    assert not request.out.exists()


def test_nothing_but_noisy_values_reaches_a_release(tmp_path, monkeypatch):
    """Two tables with other values and people, and the noisy values of the first in both."""
    party, paid, found, pay = make_parties(tmp_path)[0], [], [], party_releases.pay_for_values

    def pay_for_values(*arguments, **options):
        path, receipt = pay(*arguments, **options)
        paid.append(path)
        return paid[0], receipt

    monkeypatch.setattr(party_releases, "pay_for_values", pay_for_values)
    monkeypatch.setattr(payment, "random_charge_id", lambda: "0123456789abcdef")
    day = datetime(2026, 1, 1, tzinfo=UTC)
    monkeypatch.setattr(party_releases, "datetime", SimpleNamespace(now=lambda _: day))
    with Ledger(tmp_path / "ledger"):  # one signing key
        pass
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        ledger = shutil.copy(tmp_path / "ledger", tmp_path / name / "ledger")
        out = tmp_path / name / "release"
        party_release(request_of(party, tmp_path, ledger=ledger, out=out))
        found.append({path.name: path.read_bytes() for path in out.iterdir()})
        header, *lines = party.table.read_text().splitlines()
        half = [f"{line.split()[0]} NA -1e9" for line in lines[:300]]
        party.table.write_text("\n".join([header, *half]) + "\n")
    assert len(set(map(sha256_of_file, paid))) == 2
    assert found[0] == found[1]


def test_more_noisy_values_than_the_proof_covers_are_refused_before_the_payment(
    tmp_path, monkeypatch
):
    """Those of all columns that the promise covers count; a limit of 1200 stands for 10^11."""
    monkeypatch.setattr(calibration, "MOST_DRAWS", 2 * N_PEOPLE)
    party = make_parties(tmp_path)[0]
    with pytest.raises(UsageError, match="more noisy values than its noise is proved for"):
        party_release(request_of(party, tmp_path, person_columns=3))
    assert not (tmp_path / "ledger-one").exists()
    party_release(request_of(party, tmp_path, out=tmp_path / "fits"))


def test_people_of_another_roster_have_no_second_budget(tmp_path):
    parties = make_parties(tmp_path)
    party_release(request_of(parties[0], tmp_path, cohort="first"))
    few = write_table(tmp_path / "few.tsv", ["P0001", "P0002"], {"q": np.zeros(2)})
    party_roster(people=few, party_key=tmp_path / "key", out=tmp_path / "other-roster")
    changes = {"roster": tmp_path / "other-roster", "out": tmp_path / "second", "cohort": "second"}
    with pytest.raises(BudgetRefused, match="found second, expected first"):
        party_release(request_of(parties[0], tmp_path, **changes))


def test_a_budget_that_was_lowered_after_the_payment_publishes_nothing(tmp_path):
    request = request_of(make_parties(tmp_path)[0], tmp_path)
    party_release(request)
    shutil.rmtree(request.out)
    for epsilon, refused in ((1.0, True), (5.0, False)):
        with Ledger(request.ledger) as ledger:
            ledger.set_budget(ledger.balances()[0].account, epsilon=epsilon)
        with pytest.raises(BudgetRefused, match="was lowered") if refused else nullcontext():
            party_release(request)
        assert request.out.exists() != refused


def test_the_order_of_the_file_and_people_outside_the_roster_change_nothing(released, tmp_path):
    directory, parties, releases = released
    header, *lines = parties[0].table.read_text().splitlines()
    shuffled = tmp_path / "shuffled.tsv"
    shuffled.write_text("\n".join([header, "X1 0.5 0.5", *reversed(lines)]) + "\n")
    work = tmp_path / "work"
    shutil.copytree(directory / "release-one.work", work)
    request = request_of(parties[0], directory, pheno=shuffled, work_dir=work)
    assert party_release(request).directory == releases[0].directory  # the same request: replayed


def test_a_person_whom_a_party_does_not_know_gets_noise_alone(tmp_path):
    parties = make_parties(tmp_path)
    lines = parties[1].table.read_text().splitlines()
    dropped = [line.split()[0] for line in lines[1:301]]
    parties[1].table.write_text("\n".join([lines[0], *lines[301:]]) + "\n")
    request = request_of(parties[1], tmp_path, mixtures=None)
    release = party_release(request)
    roster = read_roster(tmp_path / "roster", tmp_path / "key")
    values = release.values[roster.positions(dropped)]
    check_noise(values, release.document["mechanism"]["sigma"])


def test_a_person_in_two_rows_of_a_table_is_refused(tmp_path):
    """Two families may have a person of the same IID, who would count twice."""
    parties = make_parties(tmp_path)
    header, *lines = parties[0].table.read_text().splitlines()
    rows = [f"F1 {line}" for line in lines] + [f"F2 {lines[7]}"]
    parties[0].table.write_text("\n".join(["#FID " + header.removeprefix("#"), *rows]) + "\n")
    with pytest.raises(InputError, match=rf"one person in two rows.*{lines[7].split()[0]}"):
        party_release(request_of(parties[0], tmp_path))


def fit_of(releases, out, method):
    return party_fit(releases=releases, outcome="y", out=out, method=method)


def test_joint_model_finds_the_effects_and_states_the_persons_promise(released, tmp_path):
    _, _, releases = released
    places = [release.directory for release in releases]
    model = fit_of(places, tmp_path / "model", "bgm")
    assert set(model.weights) == {"a", "b", "c"}
    # Three parties, each epsilon 5: together far more, at most their sum.
    assert 8 < model.epsilon < 15
    lines = (tmp_path / "model" / "weights.tsv").read_text().splitlines()
    assert [line.split("\t")[0] for line in lines] == ["term", "intercept", "a", "b", "c"]
    rows = [release.values / release.scale for release in releases]
    design = np.column_stack([np.ones(N_PEOPLE), *rows[:2]])
    weights = np.linalg.lstsq(design, rows[2][:, 0], rcond=None)[0]
    halves = np.array([1.0, 1.0, 10.0])  # of a, b, c; that of y is 2
    expected = 2 * weights[1:] / halves
    np.testing.assert_allclose([model.weights[n] for n in "abc"], expected, rtol=1e-8)
    assert model.intercept == pytest.approx(5 + 2 * weights[0])


def test_releases_of_other_people_or_methods_are_not_joined(released, tmp_path):
    directory, parties, releases = released
    with pytest.raises(UsageError, match="rows of people"):
        fit_of([release.directory for release in releases], tmp_path / "m", "rmgm")
    people = write_table(
        tmp_path / "few.tsv", [f"P{i:04d}" for i in range(500)], {"q": np.zeros(500)}
    )
    shared = str(directory / "roster")  # one path alone
    key = directory / "key"
    party_roster(people=people, party_key=key, out=tmp_path / "roster", others=shared)
    changes = {"roster": tmp_path / "roster", "out": tmp_path / "r", "ledger": tmp_path / "l"}
    other = party_release(request_of(parties[2], directory, **changes))
    assert repr(other) == f"PartyRelease(directory={tmp_path / 'r'!r})"
    with pytest.raises(InputError, match="do not belong together"):
        fit_of([releases[0].directory, other.directory], tmp_path / "m", "dgm")


@pytest.mark.parametrize("name", ["README.txt", "columns.tsv", "values.npy", "party.json"])
def test_a_changed_file_is_found(released, tmp_path, name):
    place = shutil.copytree(released[2][0].directory, tmp_path / "copy")
    flip_a_bit(place / name)
    assert not verify(place).ok
    with pytest.raises(InputError):
        open_party_release(place)


@pytest.mark.parametrize(
    ("path", "factor"),
    [
        ("mechanism.sigma", 0.5),
        ("mechanism.sensitivity", 0.5),
        ("guarantee.epsilon", 0.9),
        ("guarantee.epsilon", 1.1),
        ("guarantee.delta", 0.1),
        ("guarantee.mu", 0.9),
        ("person_columns", 2),
        ("ledger.budget_epsilon", 0.5),
        ("mechanism.unit", 2),
    ],
)
def test_a_signed_lie_is_found(released, tmp_path, path, factor):
    def lie(_, document):
        truth = value_at(document, path)
        document |= put(document, path, type(truth)(truth * factor))

    # Not only the texts differ: the numbers themselves are refuted.
    assert failed_after(lie, released, tmp_path) - {"contents", "stamp"}


def test_a_promise_for_fewer_columns_than_are_released_is_found(released, tmp_path):
    def lie(_, document):
        guarantee = document["guarantee"]
        document["person_columns"] = 1  # of two: epsilon seems to be smaller
        epsilon = epsilon_of(guarantee["mu"] / 2**0.5, guarantee["delta"])
        guarantee["epsilon"] = epsilon * (1 + 1e-9)

    assert "mechanism" in failed_after(lie, released, tmp_path)


def cut(values):
    np.save(values, np.load(values)[:-1])


def write_a_message_in_the_header(values):
    """NumPy reads over a comment there."""
    before, content = np.load(values), values.read_bytes()
    values.write_bytes(content.replace(b", }    ", b", }#500", 1))
    np.testing.assert_array_equal(np.load(values), before)


@pytest.mark.parametrize("change", [cut, write_a_message_in_the_header])
def test_values_of_another_shape_or_header_are_found(released, tmp_path, change):
    def change_and_list_again(place, document):
        path = place / "values.npy"
        change(path)
        (entry,) = (entry for entry in document["files"] if entry["name"] == path.name)
        entry |= {"sha256": sha256_of_file(path), "bytes": path.stat().st_size}

    assert failed_after(change_and_list_again, released, tmp_path) == {"contents"}


def failed_after(change, released, tmp_path):
    """Change the first party's release, sign it again, and return the checks that it fails."""
    directory, _, releases = released
    place = shutil.copytree(releases[0].directory, tmp_path / "copy")
    document = json.loads((place / PARTY.name).read_bytes())
    change(place, document)
    with Ledger(directory / "ledger-one") as ledger:
        document["signature"] = signature_of(document, Signer(ledger.public_key, ledger.sign))
    (place / PARTY.name).write_bytes(serialise(document))
    return {finding.check for finding in verify(place).problems}


def test_every_step_of_the_payment_is_passed_in_order(tmp_path):
    parties = make_parties(tmp_path)
    assert steps_passed(party_release, request_of(parties[0], tmp_path)) == list(PARTY_STEPS)


@pytest.mark.parametrize("step", thinned(PARTY_STEPS, every=6))
def test_a_killed_release_is_continued_with_one_charge(tmp_path, step):
    parties = make_parties(tmp_path)
    request = request_of(parties[0], tmp_path)
    assert killed_at(step, party_release, request) == KILLED
    release = party_release(request)
    with Ledger(request.ledger) as ledger:
        (balance,) = ledger.balances()
        ledger.set_budget(balance.account, epsilon=99.0)
    assert [charge.state for charge in balance.charges] == [ChargeState.PUBLISHED]
    assert verify(release.directory, ledger=request.ledger).ok
    shutil.rmtree(request.work_dir)  # a published release is not paid again for lost noise
    with pytest.raises(InputError, match="is not the result of this request"):
        party_release(request)


@pytest.mark.parametrize(
    "changes",
    [
        {"mixtures": 10},
        {"seed": SEED},
        {"seed": "short", "mixtures": 3},
        {"person_columns": 1},
        {"pheno": None},
        {"pheno_bounds": None},
        {"epsilon": -1.0},
        {"genotypes": "store"},
        {"party": ""},
        {"out": "/"},
        {"party": "two\nlines"},
        {"epsilon": 1e-12, "person_columns": 10**12},
    ],
)
def test_a_request_that_makes_no_sense_is_refused(tmp_path, changes):
    parties = make_parties(tmp_path)
    with pytest.raises(UsageError):
        party_release(request_of(parties[0], tmp_path, **changes))
    assert not (tmp_path / "ledger-one").exists()
