"""A release that dies at any step, as without power, is completed with one charge and one noise."""

import json
import shutil

import pytest
from support.acceptance_inputs import texts
from support.crash import ADJUSTMENT_STEPS, KILLED, STEPS, killed_at, steps_passed
from support.small_cohort import Cohort, command, refused, succeeded, write_cohort
from support.tiers import thinned

from primo_scale.cli.commands import verify
from primo_scale.ledger.accounts import Account, Charge
from primo_scale.ledger.ledger import Ledger


@pytest.fixture(scope="module")
def accumulated(tmp_path_factory) -> Cohort:
    """Provide a cohort with statistics, and a ledger with a budget for two releases."""
    cohort = Cohort(write_cohort(tmp_path_factory.mktemp("crash") / "cohort"))
    cohort.ingest()
    with Ledger(cohort.ledger) as ledger:
        ledger.set_budget(Account("c"), epsilon=2.0, delta=1e-6)
    succeeded(cohort.accumulate("--ld-blocks", "window:3", "--cohort", "c"))
    return cohort


@pytest.fixture
def cohort(accumulated: Cohort, tmp_path) -> Cohort:
    return accumulated.copy_to(tmp_path / "copy")


def finalize(cohort: Cohort, *options: object) -> None:
    succeeded(cohort.finalize("--cohort", "c", *options))


def verified_charges(cohort: Cohort) -> tuple[Charge, ...]:
    with Ledger(cohort.ledger, create=False) as ledger:
        assert ledger.verify() == []
    return cohort.charges()


def stores(cohort: Cohort) -> dict[str, bytes]:
    found = {}
    for path in (cohort.work / "private_statistics").glob("*.zarr"):
        document = json.loads((path / "zarr.json").read_text())
        if document["attributes"].get("complete"):
            found[path.stem] = (path / "gram" / "0" / "c" / "0" / "0").read_bytes()
    return found


# Accumulate has paid, and drawn the noise of the adjustment.
FINAL_STEPS = tuple(step for step in STEPS if step not in (*STEPS[:3], *ADJUSTMENT_STEPS[4:]))


def test_a_release_passes_every_step_in_order(cohort, tmp_path) -> None:
    assert list(dict.fromkeys(steps_passed(finalize, cohort))) == list(FINAL_STEPS)
    whole = Cohort(write_cohort(tmp_path / "whole"))
    assert list(dict.fromkeys(steps_passed(whole.release))) == list(STEPS)


@pytest.mark.parametrize("label", thinned(FINAL_STEPS, every=2))
def test_a_killed_release_continues_with_one_charge(label, cohort) -> None:
    assert killed_at(label, finalize, cohort) == KILLED
    noisy = stores(cohort)
    verified_charges(cohort)
    as_published = texts(cohort.out) if cohort.out.exists() else None
    assert as_published is None or "release.json" in as_published, "half a release"

    finalize(cohort)
    (charge,) = verified_charges(cohort)
    checked = command(verify, cohort.out, "--ledger", cohort.ledger)
    assert "verified:" in checked.stdout, checked.output
    published = texts(cohort.out)
    assert as_published in (None, published)
    assert json.loads(published["release.json"])["ledger"]["charge"] == charge.id
    kept = stores(cohort)
    assert list(kept) == [charge.id]
    assert noisy in ({}, kept), "a second noise for one charge"
    finalize(cohort)  # a repetition spends and changes nothing
    assert verified_charges(cohort) == (charge,)
    assert (texts(cohort.out), stores(cohort)) == (published, kept)


@pytest.mark.parametrize("label", ["reservation committed", "draw started", "adjustment stored"])
def test_a_release_that_dies_between_its_draws_is_continued(label, tmp_path) -> None:
    """The release opens a budget of its own epsilon, which pays for nothing twice."""
    cohort = Cohort(write_cohort(tmp_path / "cohort"))

    def release() -> None:
        succeeded(cohort.release())

    assert killed_at(label, release) == KILLED
    (bought,) = verified_charges(cohort)
    release()
    (charge,) = verified_charges(cohort)
    assert charge.id == bought.id
    checked = command(verify, cohort.out, "--ledger", cohort.ledger)
    assert "verified:" in checked.stdout, checked.output
    stated = json.loads(texts(cohort.out)["release.json"])["ledger"]["charge"]
    assert stated == charge.id


@pytest.mark.parametrize("lost", ["the key", "the phenotypes"])
def test_a_release_that_cannot_be_continued_is_asked_for_in_full(lost, tmp_path) -> None:
    cohort = Cohort(write_cohort(tmp_path / "cohort"))
    assert killed_at("draw started", cohort.release) == KILLED
    paid = verified_charges(cohort)
    if lost == "the key":
        (key,) = (cohort.folder / "release.work").rglob("*.key")
        key.unlink()
    else:
        table = cohort.folder / "pheno.tsv"
        table.write_text(table.read_text().replace("p3\t3", "p3\t4"))
    refused(cohort.release(), 6, "does not cover this release")
    assert verified_charges(cohort) == paid


def test_another_destination_gets_the_same_noise_at_no_cost(cohort) -> None:
    finalize(cohort)
    (charge,), noise = verified_charges(cohort), stores(cohort)
    second = cohort.folder / "second"
    finalize(cohort, "--out", second)
    assert [again.id for again in verified_charges(cohort)] == [charge.id]
    assert stores(cohort) == noise
    assert texts(second)["weights.tsv.gz"] == texts(cohort.out)["weights.tsv.gz"]


def test_a_lost_ledger_is_not_replaced_by_a_new_one(cohort) -> None:
    """While the work directory holds noise, no ledger is created and nothing is spent."""
    finalize(cohort)
    before, backup = verified_charges(cohort), cohort.folder / "backup.sqlite"
    cohort.ledger.rename(backup)
    shutil.move(cohort.out, cohort.folder / "published")

    refused(cohort.finalize("--cohort", "c"), 3, "no ledger here")
    assert not cohort.ledger.exists()
    cohort.ledger.touch()
    refused(cohort.finalize("--cohort", "c"), 3, "is an empty file")
    cohort.ledger.unlink()
    Ledger(cohort.ledger).__exit__(None, None, None)
    unknown = "does not know a charge of the work directory"
    refused(cohort.finalize("--cohort", "c"), 3, unknown)
    assert cohort.charges() == ()
    assert not cohort.out.exists()
    backup.replace(cohort.ledger)
    finalize(cohort)
    assert [charge.id for charge in verified_charges(cohort)] == [charge.id for charge in before]
