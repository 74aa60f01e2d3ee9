"""A ledger that did not pay for the noise in the work directory is refused."""

import pytest
from support.crash import KILLED, killed_at
from support.tiny_release import charges_of, key_left, noise_store, pay

from primo_scale.errors import InputError
from primo_scale.ledger.ledger import Ledger


def replace_ledger(folder):
    path = folder / "ledger.sqlite"
    path.rename(folder / "backup.sqlite")
    Ledger(path).__exit__(None, None, None)
    return path


def refused(folder, raw, file):
    with pytest.raises(InputError, match="does not know a charge") as found:
        pay(folder, raw)
    line = str(found.value)
    assert str(folder / "ledger.sqlite") in line
    assert str(file) in line
    assert "from a backup" in line
    assert charges_of(folder) == []


def test_noise_of_another_ledger_is_refused(tmp_path, raw):
    charge = pay(tmp_path, raw)[1].charge.id
    ledger = replace_ledger(tmp_path)
    refused(tmp_path, raw, noise_store(tmp_path).path_of(charge, "zarr"))
    (tmp_path / "backup.sqlite").replace(ledger)
    assert pay(tmp_path, raw)[1].charge.id == charge
    assert len(charges_of(tmp_path)) == 1


@pytest.mark.parametrize("label", ["draw started", "block written", "statistics stored"])
def test_noise_of_a_draw_that_started_is_refused(tmp_path, raw, label):
    assert killed_at(label, pay, tmp_path, raw) == KILLED
    charge, _ = key_left(tmp_path)
    replace_ledger(tmp_path)
    refused(tmp_path, raw, noise_store(tmp_path).directory / f"{charge}.key")


@pytest.mark.parametrize("label", ["key stored", "reservation committed"])
def test_an_unused_key_is_not_refused(tmp_path, raw, label):
    """No noise exists that could be drawn a second time."""
    assert killed_at(label, pay, tmp_path, raw) == KILLED
    charge, _ = key_left(tmp_path)
    ledger = replace_ledger(tmp_path)
    assert pay(tmp_path, raw)[1].charge.id != charge, (
        "the key may be another request's in the ledger that was replaced"
    )
    (tmp_path / "backup.sqlite").replace(ledger)
    with pytest.raises(InputError, match="does not know a charge"):
        pay(tmp_path, raw)
