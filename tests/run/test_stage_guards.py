"""What finalize refuses before it pays."""

import json
import re
import shutil

import pytest
from support.small_cohort import Cohort, N, command, refused, succeeded, write_cohort
from support.stores import flip_a_bit
from support.tiers import thinned

from primo_scale.cli.commands import ledger, verify
from primo_scale.gaussian import calibration
from primo_scale.ledger.accounts import ChargeState
from primo_scale.ledger.ledger import Ledger
from primo_scale.storage.files import sha256_of_file
from primo_scale.verify.document import serialise
from primo_scale.verify.files import Signer, signature_of

BLOCKS = ("--ld-blocks", "window:1")


def set_variant(cohort, variant, byte):
    """Replace a variant of the .bed: 0xAA is heterozygous in everybody."""
    bed = cohort.folder / "cohort.bed"
    content, width = bytearray(bed.read_bytes()), N // 4
    start = 3 + variant * width
    content[start : start + width] = bytes([byte]) * width
    bed.write_bytes(content)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    cohort = Cohort(write_cohort(tmp_path_factory.mktemp("made") / "cohort"))
    cohort.ingest()
    succeeded(cohort.accumulate(*BLOCKS))
    return cohort


@pytest.fixture
def summed(made, tmp_path):
    return made.copy_to(tmp_path / "copy")


def drawn(cohort):
    """Return whether any noise of statistics was drawn; accumulate has paid."""
    (charge,) = cohort.charges()
    return charge.state is not ChargeState.RESERVED or charge.bound_to != ()


def raise_budget(cohort):
    with Ledger(cohort.ledger) as opened:
        opened.set_budget(opened.balances()[0].account, epsilon=10)


def test_unclipped_statistics_are_never_made_private_by_whatever_design(summed):
    """Bounds that the summed rows were not clipped to would make a false guarantee."""
    other = summed.folder / "other"
    assert summed.accumulate(*BLOCKS, "--non-private", "--work-dir", other).exit_code == 0
    refused(summed.finalize("--work-dir", other), 2, "never be private")
    shutil.copy(summed.work / "design.json", other / "design.json")
    refused(summed.finalize("--work-dir", other), 3, "damaged or of another design")
    assert not drawn(summed)


def test_other_genotypes_at_the_same_place_are_refused(summed):
    set_variant(summed, 1, 0xAA)
    shutil.rmtree(summed.store)
    summed.ingest()
    refused(summed.finalize(), 3, "another genotypes than the statistics")
    assert not drawn(summed)


@pytest.mark.parametrize("damage", ["removed", "flipped"])
def test_damaged_statistics_are_refused(summed, damage):
    chunk = summed.work / "statistics.zarr" / "gram" / "0" / "c" / "0" / "0"
    if damage == "removed":
        chunk.unlink()
    else:
        flip_a_bit(chunk)
    refused(summed.finalize(), 3, "chunk")
    assert not drawn(summed)


def test_statistics_of_other_blocks_are_refused(summed):
    header = summed.work / "statistics.zarr" / "zarr.json"
    document = json.loads(header.read_text())
    document["attributes"]["boundaries"][1] += 1
    header.write_text(json.dumps(document))
    refused(summed.finalize(), 3, "damaged or of another design")
    assert not drawn(summed)


def test_more_noisy_values_than_the_proof_covers_are_refused_before_the_payment(
    summed, tmp_path, monkeypatch
):
    """A limit of 80 values stands for 10^11."""
    monkeypatch.setattr(calibration, "MOST_DRAWS", 80)
    words = "more noisy values than its noise is proved for"
    refused(summed.finalize(), 2, words)
    whole = Cohort(write_cohort(tmp_path / "whole"))
    refused(whole.release(), 2, words)
    assert not whole.ledger.exists()


def test_the_same_people_under_another_name_open_no_second_budget(cohort, tmp_path):
    """Neither under another name of the cohort, nor with other family identifiers."""
    cohort.ingest()
    succeeded(cohort.accumulate("--cohort", "first"))
    again = ["--work-dir", cohort.folder / "second", "--epsilon", 0.5]
    refused(cohort.accumulate(*again, "--cohort", "other"), 6, "under another name")
    renamed = Cohort(write_cohort(tmp_path / "renamed"))
    for name in ("cohort.fam", "pheno.tsv"):
        path = renamed.folder / name
        path.write_text(re.sub(r"^f\d+", "0", path.read_text(), flags=re.MULTILINE))
    renamed.ingest()
    again = ["--ledger", cohort.ledger, "--epsilon", 0.5]
    words = "people of this release have a budget under another name"
    for name in ([], ["--cohort", "other"]):
        refused(renamed.accumulate(*again, *name), 6, words)
    assert len(cohort.charges()) == 1
    succeeded(cohort.finalize("--cohort", "first"))


def test_a_budget_that_was_lowered_after_the_payment_is_named(cohort):
    """Its own verification would reject the release; the noise stays paid for."""
    succeeded(cohort.release("--cohort", "c"))
    shutil.rmtree(cohort.out)
    budget = ["set-budget", "--ledger", cohort.ledger, "--cohort", "c", "--delta", 1e-6]
    succeeded(command(ledger, *budget, "--epsilon", 0.5))
    before = cohort.charges()
    refused(cohort.release("--cohort", "c"), 6, "the budget was lowered")
    succeeded(command(ledger, *budget, "--epsilon", 1))
    succeeded(cohort.release("--cohort", "c"))
    assert cohort.charges() == before


def test_a_release_of_another_request_is_refused(summed):
    succeeded(summed.finalize())
    raise_budget(summed)
    words = "the phenotypes were adjusted for a release with another epsilon and delta"
    refused(summed.finalize("--epsilon", 2), 2, words)
    refused(summed.finalize("--method", "ssp"), 3, "is not the result of this request")
    shutil.rmtree(summed.out)
    words = "for other statistics or another method"
    refused(summed.finalize("--method", "ada-ssp"), 3, words)
    succeeded(summed.finalize())
    assert len(summed.charges()) == 1


def test_statistics_without_a_paid_adjustment_are_not_released(summed):
    path = summed.work / "design.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"adjustment": None}))
    refused(summed.finalize(), 3, "the work directory holds no statistics")
    assert not drawn(summed)


def test_payments_are_told_each_time(cohort):
    """The charge of a release opens a budget, and is found again at no cost."""
    first = succeeded(cohort.release())
    (charge,) = cohort.charges()
    assert f"release: paid with charge {charge.id}" in first.stderr
    raise_budget(cohort)
    work = ("--work-dir", cohort.folder / "release.work")
    other = ("--epsilon", 2, "--out", cohort.folder / "other", *work)
    refused(cohort.release(*other), 3, "is not the result of this request")
    again = succeeded(cohort.release())
    assert f"release: paid for before, with charge {charge.id}" in again.stderr
    (cohort.folder / "release.work" / "adjustment.json").unlink()
    refused(cohort.release(), 3, "the adjustment of the phenotypes in the finished statistics is")
    assert len(cohort.charges()) == 1


@pytest.mark.parametrize(
    ("option", "place"),
    [
        ("--work-dir", "release"),
        ("--work-dir", "release/work"),
        ("--ledger", "release/ledger"),
    ],
)
def test_nothing_private_may_lie_in_what_gets_published(cohort, option, place):
    result = cohort.release(option, cohort.folder / "elsewhere" / ".." / place)
    refused(result, 2, f"{option}: is private, and lies in what gets published")
    assert not cohort.ledger.exists() and not cohort.out.exists()


@pytest.mark.parametrize("private", thinned([False, True], every=2))
def test_a_damaged_release_is_not_said_to_be_published(summed, private):
    def finalize_again():
        return summed.finalize() if private else summed.finalize("--non-private", budget=[])

    assert finalize_again().exit_code == 0
    weights = summed.out / "weights.tsv.gz"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-9])
    refused(finalize_again(), 3, "the release there is damaged")
    shutil.rmtree(summed.out)
    succeeded(finalize_again())
    assert weights.read_bytes() == whole
    assert "published already" in finalize_again().stderr


def test_a_release_that_another_ledger_signed_is_not_said_to_be_published(summed):
    succeeded(summed.finalize())
    document = json.loads((summed.out / "release.json").read_bytes())
    report = summed.out / "report.html"
    with Ledger(summed.folder / "other.sqlite") as other:
        own_key = document["signature"]["public_key"]
        report.write_text(report.read_text().replace(own_key, other.public_key))
        for entry in document["files"]:
            entry["sha256"] = sha256_of_file(summed.out / entry["name"])
        document["signature"] = signature_of(document, Signer(other.public_key, other.sign))
    (summed.out / "release.json").write_bytes(serialise(document))
    succeeded(command(verify, summed.out))
    refused(summed.finalize(), 3, "the release there is damaged", "signed with another key")
    (charge,) = summed.charges()
    assert len(charge.release_digests) == 1
