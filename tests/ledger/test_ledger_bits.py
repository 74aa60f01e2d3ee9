"""A damaged ledger file is refused in one line, or it returns the same balances as before."""

from __future__ import annotations

import random

import pytest
from ledger_examples import ACCOUNT, DELTA, request
from tiers import thinned

from primo_scale.errors import PrimoError
from primo_scale.ledger.ledger import Ledger
from primo_scale.ledger.spending import Balance

USES = {
    "verify": lambda ledger: ledger.verify(),
    "balances": lambda ledger: ledger.balances(),
    "reserve": lambda ledger: ledger.reserve(request("second", epsilon=1.0)),
    "public_key": lambda ledger: ledger.public_key,
    "sign": lambda ledger: ledger.sign(b"x"),
}


def used_ledger(path) -> tuple[bytes, list[Balance]]:
    """Return the content of a ledger with a published release, and its balances."""
    with Ledger(path) as ledger:
        ledger.set_budget(ACCOUNT, epsilon=8.0, delta=DELTA)
        charge = ledger.reserve(request()).charge
        ledger.mark_drawn(charge, "noised")
        ledger.mark_published(charge, "release")
        balances = ledger.balances()
    return path.read_bytes(), balances


def damaged(content: bytes, generator: random.Random) -> bytes:
    """Truncate the content, overwrite a byte, or flip a bit of a nonzero byte."""
    used = [at for at, byte in enumerate(content) if byte]
    changed = bytearray(content)
    kind, at = generator.randrange(8), generator.choice(used)
    if kind == 0:
        return bytes(changed[:at])
    if kind == 1:
        changed[at] = generator.randrange(256)
    else:
        changed[at] ^= 1 << generator.randrange(8)
    return bytes(changed)


def use_damaged(path, content, before) -> None:
    """Use a damaged file in every way: each ends in one line, or with the balances before."""
    for name, use in USES.items():
        path.write_bytes(content)
        try:
            with Ledger(path, create=False) as ledger:
                use(ledger)
                if name == "balances" and not ledger.verify():
                    assert ledger.balances() == before
        except PrimoError as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize("seed", thinned(range(2), every=2))
def test_damage_causes_no_traceback_and_no_other_balance(tmp_path, seed) -> None:
    content, before = used_ledger(tmp_path / "ledger.sqlite")
    for trial in range(150):
        changed = damaged(content, random.Random(f"{seed} {trial}"))
        use_damaged(tmp_path / f"{trial}.sqlite", changed, before)


@pytest.mark.parametrize("at", [3938, 15351])
@pytest.mark.parametrize("bit", range(8))
def test_bits_that_caused_a_traceback(tmp_path, at, bit) -> None:
    """A byte of the schema, and a byte of an event that is then not text."""
    content, before = used_ledger(tmp_path / "ledger.sqlite")
    changed = bytearray(content)
    changed[at] ^= 1 << bit
    use_damaged(tmp_path / "damaged.sqlite", bytes(changed), before)
