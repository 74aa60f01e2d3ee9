"""Helpers for tests of the ledger: requests, concurrent processes, and a ledger of version 1.

The ledger of version 1 is written with that version's SQL, independently of the code under test.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import multiprocessing
import shlex
import sqlite3
from pathlib import Path

import pytest

from primo_scale.errors import BudgetRefused
from primo_scale.gaussian.calibration import Cost, release_mu
from primo_scale.ledger.ledger import Ledger
from primo_scale.ledger.spending import Account, ChargeRequest

DELTA = 1e-8
ACCOUNT = Account("eur343")
# Children start from a process that has only imported the ledger: fast, and no state is inherited.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["primo_scale.ledger.ledger"])

VERSION_1_KEY = bytes(range(32))
VERSION_1_CHARGE = "00112233aabbccdd"
# Cost in version 1 of epsilon 5 at delta 1e-8.
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
    """Write a ledger whose cohort ``eur343`` has spent epsilon 5 of 8 at delta 1e-8."""
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
    return ChargeRequest(account, digest, epsilon, delta, cost or gaussian(epsilon, delta))


def report_public_key(path, keys):
    with Ledger(path) as ledger:
        keys.put(ledger.public_key)


def together(function, path, names):
    """Run `function(path, *name, results)` in one process per name; return the queued results."""
    results = PROCESSES.Manager().Queue()
    processes = [PROCESSES.Process(target=function, args=(path, *name, results)) for name in names]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    return [results.get() for _ in range(results.qsize())]


def refused_command(ledger, asked):
    """Return the error line and the `set-budget` arguments that it proposes; check that no event
    is recorded."""
    head = ledger.head()
    for attempt in (ledger.reserve, ledger.reserve_again):
        with pytest.raises(BudgetRefused) as refused:
            attempt(asked)
        assert ledger.head() == head
    assert refused.value.exit_code == 6
    line = str(refused.value)
    assert "\n" not in line
    words = shlex.split(line[line.index("set-budget ") :])
    assert words[:3] == ["set-budget", "--ledger", str(ledger.path)]
    assert words[-4:] == ["--epsilon", "E", "--delta", "D"]
    return line, dict(zip(words[3:-4:2], words[4:-4:2], strict=True))
