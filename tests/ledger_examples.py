"""What tests of the ledger share: requests, processes that race, and a version 1 ledger.

The last is written from that version's SQL and not by the code under test.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import multiprocessing
import sqlite3
from pathlib import Path

from primo_scale.gaussian.calibration import Cost, release_mu
from primo_scale.ledger.ledger import Ledger
from primo_scale.ledger.spending import Account, ReleaseRequest

DELTA = 1e-8
ACCOUNT = Account("eur343")
# Children start from a process that has only imported the ledger: fast, and no state is inherited.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["primo_scale.ledger.ledger"])

VERSION_1_KEY = bytes(range(32))
VERSION_1_CHARGE = "00112233aabbccdd"
# What version 1 charged for epsilon 5 at delta 1e-8.
VERSION_1_MU_SQUARED = 0.7708005542572585
_SCHEMA = """
CREATE TABLE secret (key BLOB NOT NULL);
CREATE TABLE events (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    time TEXT NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL, digest TEXT NOT NULL);
CREATE TRIGGER events_stay BEFORE DELETE ON events
    BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER events_are_final BEFORE UPDATE ON events
    BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
"""
_ACCOUNT = {"cohort": "eur343", "unit": "full", "adjacency": "replace-one"}
_EVENTS = (
    ("created", {"format_version": 1}),
    ("budget", {**_ACCOUNT, "epsilon": 8.0, "delta": 1e-8}),
    (
        "reserved",
        {
            **_ACCOUNT, "charge": VERSION_1_CHARGE, "request": "first", "epsilon": 5.0,
            "delta": 1e-8, "mu_squared": VERSION_1_MU_SQUARED, "people": "everybody",
        },
    ),
    ("drawn", {"charge": VERSION_1_CHARGE, "digest": "noised"}),
    ("published", {"charge": VERSION_1_CHARGE, "digest": "release"}),
)  # fmt: skip


def write_version_1(path: Path) -> None:
    """A ledger whose cohort ``eur343`` has spent epsilon 5 of 8 at delta 1e-8."""
    database = sqlite3.connect(path)
    database.executescript(_SCHEMA)
    database.execute("INSERT INTO secret VALUES (?)", (VERSION_1_KEY,))
    previous = ""
    for kind, body in _EVENTS:
        time, text = "2026-11-20T12:00:00+00:00", _json(body)
        message = b"event\0" + _json([previous, time, kind, text]).encode()
        previous = hmac.new(VERSION_1_KEY, message, hashlib.sha256).hexdigest()
        database.execute(
            "INSERT INTO events (time, kind, body, digest) VALUES (?, ?, ?, ?)",
            (time, kind, text, previous),
        )
    database.commit()
    database.close()


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def gaussian(epsilon, delta=DELTA, share=1.0):
    return Cost(share * release_mu(epsilon, delta) ** 2)


def request(digest="first", epsilon=5.0, delta=DELTA, account=ACCOUNT, cost=None):
    return ReleaseRequest(account, digest, epsilon, delta, cost or gaussian(epsilon, delta))


def report_public_key(path, keys):
    with Ledger(path) as ledger:
        keys.put(ledger.public_key)


def together(function, path, names):
    """Run `function(path, *name, results)` in one process per name; return what they put."""
    results = PROCESSES.Manager().Queue()
    processes = [PROCESSES.Process(target=function, args=(path, *name, results)) for name in names]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    return [results.get() for _ in range(results.qsize())]
