"""The ledger: tampering, damage, foreign files, full disks, keys and format versions."""

import os
import random
import sqlite3
from contextlib import closing

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from support.ledger_examples import ACCOUNT, DELTA, publish, request
from support.tiers import thinned

from primo_scale.errors import InputError, PrimoError, ResourceError
from primo_scale.ledger.accounts import Account, Balance
from primo_scale.ledger.ledger import Ledger


@pytest.fixture
def used(path):
    with Ledger(path) as ledger:
        publish(ledger)
    return path


def tamper(path, *statements):
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("DROP TRIGGER events_stay")
    database.execute("DROP TRIGGER events_are_final")
    for statement in statements:
        database.execute(statement)
    database.close()


def test_the_database_rejects_changes_of_events(used):
    database = sqlite3.connect(used, isolation_level=None)
    for statement in ("DELETE FROM events", "UPDATE events SET time = ''"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            database.execute(statement)
    database.close()


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE events SET time = 'x' WHERE number = 3", "event 3 (reserved): changed"),
        ("UPDATE events SET digest = 'x' WHERE number = 5", "event 5 (published): changed"),
        ("UPDATE events SET body = replace(body, '5.0', '0.1') WHERE kind = 'reserved'",
         "costs more than its epsilon and delta"),
        ("UPDATE events SET body = 'x' WHERE kind = 'drawn'", "event 4 (drawn): cannot be read"),
        ("DELETE FROM events WHERE kind = 'drawn'", "event 4: missing"),
        ("DELETE FROM events WHERE kind = 'published'", "event 5: missing at the end"),
        ("UPDATE secret SET key = x'00'", "event 1 (created): changed"),
    ],
)  # fmt: skip
def test_tampering_is_detected_and_blocks_payments(used, statement, problem):
    tamper(used, statement)
    with Ledger(used, create=False) as ledger:
        assert any(problem in line for line in ledger.verify())
        with pytest.raises(InputError, match="the ledger is damaged"):
            ledger.reserve(request())


def test_events_that_changed_places_are_detected(path):
    """Each digest is that of its event and of the one before."""
    with Ledger(path) as ledger:
        publish(ledger)
        ledger.set_budget(ACCOUNT, epsilon=7.0, delta=DELTA)
        ledger.set_budget(ACCOUNT, epsilon=9.0, delta=DELTA)
        assert ledger.verify() == []
    columns = "time, kind, body, digest"
    database = sqlite3.connect(path, isolation_level=None)
    last, before = database.execute(
        f"SELECT number, {columns} FROM events ORDER BY number DESC LIMIT 2"
    ).fetchall()
    database.close()
    change = "UPDATE events SET time = {!r}, kind = {!r}, body = {!r}, digest = {!r} WHERE number ="
    tamper(
        path,
        f"{change.format(*before[1:])} {last[0]}",
        f"{change.format(*last[1:])} {before[0]}",
    )
    with Ledger(path, create=False) as ledger:
        assert any("changed after it was written" in line for line in ledger.verify())


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE signing SET key = randomblob(32)",
        "UPDATE signing SET key = 'text'",
        "DELETE FROM signing",
        "INSERT INTO signing VALUES (randomblob(32))",
        "DROP TABLE signing",
    ],
)
def test_a_key_that_was_not_recorded_neither_signs_nor_pays(used, statement):
    tamper(used, statement)
    problem = "signing key is not the one that was recorded"
    with Ledger(used, create=False) as ledger:
        assert any(problem in line for line in ledger.verify())
        assert ledger.public_key
        with pytest.raises(InputError, match=problem):
            ledger.sign(b"release")
        with pytest.raises(InputError, match="the ledger is damaged"):
            ledger.reserve(request())


@pytest.mark.parametrize("create", [True, False])
def test_another_file_or_database_and_an_empty_file_are_refused(tmp_path, create):
    (tmp_path / "file").write_bytes(b"not a database" * 100)
    (tmp_path / "empty").touch()
    with sqlite3.connect(tmp_path / "other.sqlite") as database:
        database.execute("CREATE TABLE t (x)")
    empty = r"is an empty file.*Restore the ledger from a backup"
    other = "is not a privacy ledger"
    for name, words in {"file": other, "other.sqlite": other, "empty": empty}.items():
        with pytest.raises(InputError, match=words):
            Ledger(tmp_path / name, create=create)
    assert (tmp_path / "empty").stat().st_size == 0


def test_a_new_ledger_is_complete_before_it_has_its_name(tmp_path, monkeypatch):
    """A process that dies while it creates a ledger leaves no file that would be refused."""
    sizes = []
    link = os.link

    def seen(source, target):
        link(source, target)
        sizes.append(target.stat().st_size)

    monkeypatch.setattr("os.link", seen)
    Ledger(tmp_path / "ledger.sqlite").__exit__(None, None, None)
    assert len(sizes) == 1
    assert sizes[0] > 0
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.sqlite"]


def test_a_newer_format_is_refused(path, monkeypatch):
    monkeypatch.setattr("primo_scale.ledger.event_log.FORMAT_VERSION", 3)
    Ledger(path).__exit__(None, None, None)
    monkeypatch.undo()
    with pytest.raises(InputError, match="unknown format version"):
        Ledger(path)


def test_a_full_disk_is_reported_and_records_no_event(used):
    """SQLite's page limit causes the same error as a full disk."""
    with Ledger(used) as ledger:
        database = ledger._database
        pages = database.execute("PRAGMA page_count").fetchone()[0]
        database.execute(f"PRAGMA max_page_count = {pages}")
        ledger_head = ledger.head()
        with pytest.raises(ResourceError, match="the disk is full"):
            ledger.reserve(request("long", account=Account("x" * 100_000)))
        assert ledger.head() == ledger_head
        assert ledger.verify() == []


def test_a_locked_ledger_is_reported(path, ledger, monkeypatch):
    monkeypatch.setattr("primo_scale.ledger.event_log._LOCK_SECONDS", 0.05)
    with (
        Ledger(path) as other,
        ledger.exclusively(),
        pytest.raises(InputError, match="another process has held the ledger"),
    ):
        other.reserve(request())


def checked(public_key, signature, data):
    """Verify a signature with the cryptography library; raise if it is invalid."""
    Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key)).verify(signature, data)


def test_a_ledger_signs_with_one_key_of_its_own(path, tmp_path):
    with Ledger(path) as ledger, Ledger(tmp_path / "other.sqlite") as other:
        key, signature = ledger.public_key, ledger.sign(b"release")
        checked(key, signature, b"release")
        assert other.public_key != key
        with pytest.raises(InvalidSignature):
            checked(key, other.sign(b"release"), b"release")
    with Ledger(path, create=False) as again:
        assert again.public_key == key
        assert again.sign(b"release") == signature


@pytest.mark.parametrize("key", ["NULL", "7", "'text'"])
def test_a_key_of_another_type_is_one_line(key, tmp_path) -> None:
    path = tmp_path / "ledger.sqlite"
    with Ledger(path):
        pass
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE other AS SELECT * FROM secret")
        database.execute("DROP TABLE secret")
        database.execute("ALTER TABLE other RENAME TO secret")
        database.execute(f"UPDATE secret SET key = {key}")
    with pytest.raises(InputError, match="the ledger is damaged: it has no key"):
        Ledger(path, create=False)


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
        publish(ledger)
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
