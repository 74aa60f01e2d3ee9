"""An append-only, durable chain of events in one SQLite file that also holds its secret keys.

This is the storage of the privacy ledger, without its accounting. Every event carries a keyed
digest of itself and of the previous event. A second key (Ed25519, RFC 8032) signs releases. The
chain records its public key, so that a replaced signing key is detected.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from primo_scale.errors import InputError, ResourceError
from primo_scale.storage.files import canonical_json, disk_errors_explained, sync_directory

FORMAT_VERSION = 2
_KEY_BYTES = 32
_LOCK_SECONDS = 60.0
_NO_EVENT = ""
_ATTACHMENT = "attachment"
_WRONG_KEY = "the signing key is not the one that was recorded"
# Created with the first attachment, which a ledger of version 0.1 may lack.
_ATTACHMENTS_TABLE = (
    "CREATE TABLE IF NOT EXISTS attachments (digest TEXT PRIMARY KEY, data BLOB NOT NULL)"
)
_SCHEMA = (
    "CREATE TABLE secret (key BLOB NOT NULL)",
    "CREATE TABLE signing (key BLOB NOT NULL)",
    # AUTOINCREMENT remembers the largest number ever used, which reveals a removed last event.
    """CREATE TABLE events (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        time TEXT NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL, digest TEXT NOT NULL)""",
    """CREATE TRIGGER events_stay BEFORE DELETE ON events
        BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
    """CREATE TRIGGER events_are_final BEFORE UPDATE ON events
        BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
)


class EventLog:
    """Open event log; a context manager.

    With `create`, an empty log with new keys is created if there is no SQLite file at `path`. With
    `read_only`, the file stays unchanged, so that only the queries work. An InputError is raised if
    the log does not exist and is not created, is of another kind, or is not accessible, and a
    ResourceError if the disk is full.
    """

    def __init__(self, path: Path, *, create: bool = True, read_only: bool = False) -> None:
        self.path = path
        if create and not read_only:
            _create_log(path)
        elif not path.is_file():
            raise InputError(
                "no ledger here",
                where=path,
                remedy="Check --ledger, or restore the ledger from a backup: only it records what "
                "was spent",
            )
        if path.stat().st_size == 0:
            raise InputError(
                "is an empty file, so it is unknown what was spent",
                where=path,
                remedy="Restore the ledger from a backup; remove the file only if no release was "
                "ever paid from it",
            )
        with _database_errors_explained(path):
            self._database = _connect(path)
            self._key = self._read_key()
            if read_only:
                self._database.execute("PRAGMA query_only = ON")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._database.close()

    def keyed_digest(self, purpose: str, data: bytes) -> str:
        """Return the HMAC-SHA256 of `data` under the log's key, as hexadecimal text.

        Without the key nobody can confirm a guess. The digest must still not be published, because
        two equal digests reveal two equal inputs. Digests of different purposes never coincide.
        """
        return _keyed_digest(self._key, purpose, data)

    @property
    def public_key(self) -> str:
        """Public signing key that the chain records, as 64 hexadecimal digits."""
        return str(self._format_event().get("public_key"))

    def sign(self, data: bytes) -> bytes:
        """Return the Ed25519 signature of `data` under the log's signing key, 64 bytes.

        A key that is not the one that the chain records raises an InputError.
        """
        key = self._signing_key()
        if key is None:
            raise InputError(
                _WRONG_KEY,
                where=self.path,
                remedy="Nothing is signed with it; see primo-scale ledger verify",
            )
        return key.sign(data)

    @contextmanager
    def exclusively(self) -> Iterator[None]:
        """Open an exclusive transaction, which is durable when the block ends without an error."""
        # Leaving the connection's context commits, or rolls back after an error.
        with _database_errors_explained(self.path), self._database:
            self._database.execute("BEGIN IMMEDIATE")
            yield

    def append(self, kind: str, body: Mapping[str, Any]) -> None:
        """Append one event in the current transaction."""
        _append(self._database, self._key, self.head(), kind, body)

    def attach(self, data: bytes) -> str:
        """Store `data` beside the chain in the current transaction and return its keyed digest.

        An event that records the digest pins the data. Equal data are stored once.
        """
        digest = self.keyed_digest(_ATTACHMENT, data)
        self._database.execute(_ATTACHMENTS_TABLE)
        self._database.execute("INSERT OR IGNORE INTO attachments VALUES (?, ?)", (digest, data))
        return digest

    def attachment(self, digest: str) -> bytes:
        """Return the attachment with a given digest, or refuse one that is missing or changed."""
        rows = self._select("SELECT CAST(data AS BLOB) FROM attachments WHERE digest = ?", digest)
        data = rows[0][0] if rows else b""
        if self.keyed_digest(_ATTACHMENT, data) != digest:
            raise InputError(
                "the ledger is damaged: a list of people is missing or was changed",
                where=self.path,
                value=digest[:12],
                remedy="Restore the ledger from a backup",
            )
        return data

    def events(self) -> list[tuple[str, str, Mapping[str, Any]]]:
        """Return every event as ``(time, kind, body)``, oldest first."""
        return [(time, kind, _parsed(body)) for _, time, kind, body, _ in self._rows()]

    def head(self) -> str:
        """Return the digest of the last event, which depends on every earlier event."""
        rows = self._select("SELECT digest FROM events ORDER BY number DESC LIMIT 1")
        return str(rows[0][0]) if rows else _NO_EVENT

    def chain_problems(self) -> list[str]:
        """Recompute every digest; return a line for each changed or missing event.

        One more line reports a signing key that is not the recorded one.
        """
        problems = []
        previous, last = _NO_EVENT, 0
        for number, time, kind, body, digest in self._rows():
            if number != last + 1:
                problems.append(f"event {last + 1}: missing")
            texts = all(isinstance(part, str) for part in (previous, time, kind, body))
            if not texts or digest != _event_digest(self._key, previous, (time, kind, body)):
                problems.append(f"event {number} ({kind}): changed after it was written")
            previous, last = digest, number
        if self._select("SELECT seq FROM sqlite_sequence WHERE name = 'events'") != [(last,)]:
            problems.append(f"event {last + 1}: missing at the end")
        return problems if self._signing_key() else [*problems, _WRONG_KEY]

    def _signing_key(self) -> Ed25519PrivateKey | None:
        """Return the private key, or None if it is not the one that was recorded."""
        keys = self._select("SELECT key FROM signing")
        try:
            ((secret,),) = keys
            key = Ed25519PrivateKey.from_private_bytes(secret)
        except (ValueError, TypeError):  # not exactly one, or damaged
            return None
        return key if _public_key_of(key) == self.public_key else None

    def _format_event(self) -> Mapping[str, Any]:
        """Return the body of the first event, which states the format version and public key."""
        rows = self._select("SELECT body FROM events WHERE number = 1")
        return _parsed(rows[0][0]) if rows else {}

    def _select(self, query: str, *values: str) -> list[Any]:
        """Return the rows of a query, or no rows if the table does not exist."""
        with _database_errors_explained(self.path):
            try:
                return self._database.execute(query, values).fetchall()
            except sqlite3.OperationalError as error:
                if "no such table" not in str(error):
                    raise
                return []

    def _read_key(self) -> bytes:
        keys = self._select("SELECT key FROM secret")
        if not keys and not self._select("SELECT * FROM sqlite_master WHERE name = 'secret'"):
            raise InputError("is not a privacy ledger", where=self.path)
        version = self._format_event().get("format_version")
        if len(keys) != 1 or version != FORMAT_VERSION:
            raise InputError(
                "the ledger has an unknown format version",
                where=self.path,
                value=version,
                limit=FORMAT_VERSION,
                remedy="Use the version of primo_scale that wrote it",
            )
        key = keys[0][0]
        if not isinstance(key, bytes):
            remedy = "Restore it from a backup"
            raise InputError("the ledger is damaged: it has no key", where=self.path, remedy=remedy)
        return key

    def _rows(self) -> list[tuple[int, str, str, str, str]]:
        return self._select("SELECT number, time, kind, body, digest FROM events ORDER BY number")


def _keyed_digest(key: bytes, purpose: str, data: bytes) -> str:
    return hmac.new(key, purpose.encode() + b"\0" + data, hashlib.sha256).hexdigest()


def _event_digest(key: bytes, previous: str, event: tuple[str, str, str]) -> str:
    return _keyed_digest(key, "event", canonical_json([previous, *event]))


def _parsed(body: str) -> Mapping[str, Any]:
    try:
        parsed = json.loads(body)
    except (ValueError, TypeError, RecursionError):  # damage may leave bytes or a number
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _connect(path: Path) -> sqlite3.Connection:
    """Open the file so that every committed transaction survives a power loss."""
    database = sqlite3.connect(path, timeout=_LOCK_SECONDS, isolation_level=None)
    # A reservation must survive a power loss before noise is drawn. EXTRA also flushes the
    # directory after the rollback journal is removed; FULL could lose the last commit.
    # (A write-ahead log would be a second file, which somebody who copies the ledger may miss.)
    database.execute("PRAGMA journal_mode = DELETE")
    database.execute("PRAGMA synchronous = EXTRA")
    return database


def _create_log(path: Path) -> None:
    """Create a durable log with new keys, unless the file exists.

    The log is written to a temporary file and linked to its final name, which fails if another
    process was first. A kill therefore never leaves an empty file under the final name, and an
    empty file always means damage.
    """
    if path.exists():
        return
    with disk_errors_explained(path), _database_errors_explained(path):
        missing = [parent for parent in path.parents if not parent.exists()]
        # A power loss would remove a ledger whose new directory has no durable entry.
        for directory in reversed(missing):
            directory.mkdir(mode=0o700, exist_ok=True)
            sync_directory(directory.parent)
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(descriptor)
        try:
            _fill_new_log(Path(name))
            with suppress(FileExistsError):
                os.link(name, path)
        finally:
            os.unlink(name)
        sync_directory(path.parent)


def _fill_new_log(path: Path) -> None:
    """Write the tables, the keys and the first event to an empty file."""
    key = secrets.token_bytes(_KEY_BYTES)
    signing_key = Ed25519PrivateKey.generate()
    body = {"format_version": FORMAT_VERSION, "public_key": _public_key_of(signing_key)}
    with closing(_connect(path)) as database, database:
        database.execute("BEGIN IMMEDIATE")
        for statement in _SCHEMA:
            database.execute(statement)
        database.execute("INSERT INTO secret VALUES (?)", (key,))
        database.execute("INSERT INTO signing VALUES (?)", (signing_key.private_bytes_raw(),))
        _append(database, key, _NO_EVENT, "created", body)


def _public_key_of(key: Ed25519PrivateKey) -> str:
    return key.public_key().public_bytes_raw().hex()


def _append(
    database: sqlite3.Connection, key: bytes, head: str, kind: str, body: Mapping[str, Any]
) -> None:
    time = datetime.now(UTC).isoformat(timespec="seconds")
    text = canonical_json(dict(body)).decode()
    database.execute(
        "INSERT INTO events (time, kind, body, digest) VALUES (?, ?, ?, ?)",
        (time, kind, text, _event_digest(key, head, (time, kind, text))),
    )


@contextmanager
def _database_errors_explained(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        if "disk is full" in str(error):
            raise ResourceError(
                "the disk is full", where=path, remedy="Free space, then run the command again"
            ) from error
        if "locked" in str(error):
            raise InputError(
                "another process has held the ledger for a minute",
                where=path,
                remedy="Wait for it to end, then run the same command again",
            ) from error
        raise InputError(f"cannot be used: {error}", where=path) from error
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        raise InputError(f"is not a privacy ledger: {error}", where=path) from error
