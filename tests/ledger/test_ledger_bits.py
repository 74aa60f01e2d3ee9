"""A ledger with a flipped bit, or cut short, is refused in one line or says what it said before."""

from __future__ import annotations

import random

import pytest
from ledger_examples import ACCOUNT, DELTA, request

from primo_scale.errors import PrimoError
from primo_scale.ledger.ledger import Ledger

USES = {
    "verify": lambda ledger: ledger.verify(),
    "balances": lambda ledger: ledger.balances(),
    "reserve": lambda ledger: ledger.reserve(request("second", epsilon=1.0)),
    "public_key": lambda ledger: ledger.public_key,
    "sign": lambda ledger: ledger.sign(b"x"),
}


def used_ledger(path) -> bytes:
    with Ledger(path) as ledger:
        ledger.set_budget(ACCOUNT, epsilon=8.0, delta=DELTA)
        charge = ledger.reserve(request()).charge
        ledger.mark_drawn(charge, "noised")
        ledger.mark_published(charge, "release")
    return path.read_bytes()


def harmed(content: bytes, generator: random.Random) -> bytes:
    """One bit flipped where something is written, one byte overwritten, or the end cut off."""
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


@pytest.mark.parametrize("seed", range(3))
def test_no_harm_to_the_file_is_a_traceback_or_another_balance(tmp_path, seed) -> None:
    content = used_ledger(tmp_path / "ledger.sqlite")
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        before = ledger.balances()
    for trial in range(150):
        path = tmp_path / f"{trial}.sqlite"
        for name, use in USES.items():
            path.write_bytes(harmed(content, random.Random(f"{seed} {trial}")))
            try:
                with Ledger(path, create=False) as ledger:
                    use(ledger)
                    if name == "balances" and not ledger.verify():
                        assert ledger.balances() == before, (seed, trial)
            except PrimoError as error:
                assert "\n" not in str(error)


@pytest.mark.parametrize("at", [3938, 15351])
@pytest.mark.parametrize("bit", range(8))
def test_bits_that_were_tracebacks(tmp_path, at, bit) -> None:
    """A byte of the schema and one of an event that is then no text."""
    content = bytearray(used_ledger(tmp_path / "ledger.sqlite"))
    content[at] ^= 1 << bit
    (tmp_path / "harmed.sqlite").write_bytes(content)
    for use in USES.values():
        try:
            with Ledger(tmp_path / "harmed.sqlite", create=False) as ledger:
                use(ledger)
        except PrimoError as error:
            assert "\n" not in str(error)
