"""Helpers for tests of the ledger: requests and concurrent processes."""

import multiprocessing
import shlex

import pytest

from primo_scale.errors import BudgetRefused
from primo_scale.gaussian.calibration import Cost, release_mu
from primo_scale.ledger.accounts import Account, ChargeRequest
from primo_scale.ledger.ledger import Ledger

DELTA = 1e-8
ACCOUNT = Account("eur343")
# Children start from a process that has only imported the ledger: fast, and no state is inherited.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["primo_scale.ledger.ledger"])


def gaussian(epsilon, delta=DELTA, share=1.0):
    return Cost(share * release_mu(epsilon, delta) ** 2)


def request(digest="first", epsilon=5.0, delta=DELTA, account=ACCOUNT, cost=None):
    return ChargeRequest(account, digest, epsilon, delta, cost or gaussian(epsilon, delta))


def publish(ledger):
    charge = ledger.reserve(request()).charge
    ledger.mark_drawn(charge, "noised")
    ledger.mark_published(charge, "release")


def report_public_key(path, keys):
    with Ledger(path) as ledger:
        keys.put(ledger.public_key)


def together(function, path, names):
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
    with pytest.raises(BudgetRefused) as refused:
        ledger.reserve(asked)
    assert ledger.head() == head
    assert refused.value.exit_code == 6
    line = str(refused.value)
    assert "\n" not in line
    words = shlex.split(line[line.index("set-budget ") :])
    assert words[:3] == ["set-budget", "--ledger", str(ledger.path)]
    assert words[-4:] == ["--epsilon", "E", "--delta", "D"]
    return line, dict(zip(words[3:-4:2], words[4:-4:2], strict=True))
