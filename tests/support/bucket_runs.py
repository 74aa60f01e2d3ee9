"""Commands of runs with a bucket, called in this process."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from primo_scale.cli import commands
from primo_scale.errors import InterruptedRun
from primo_scale.ledger.accounts import Account
from primo_scale.ledger.ledger import Ledger
from primo_scale.storage.locations import Location
from primo_scale.storage.stores import store_at
from support import small_cohort
from support.command_io import PANEL, table_options

BUDGET = ("--epsilon", 2, "--delta", 1e-7, "--accept-noise")


def run(command: str, *arguments: object, exit_code: int = 0) -> str:
    main = getattr(commands, {"gwas_release": "release"}.get(command, command))
    result = small_cohort.command(main, *arguments)
    assert result.exit_code == exit_code, f"exit code {result.exit_code}: {result.output}"
    return result.output


def options(cohort: Path, work: Path, budget: Sequence[object] = ("--non-private",)) -> list[str]:
    """Return options of a run, without noise, which would enter the sums of phenotypes."""
    words = (*table_options(cohort), "--ref-freq", f"{PANEL}.afreq", "--ld-blocks", "window:18",
             *budget, "--workers", 1, "--work-dir", work)  # fmt: skip
    return [str(word) for word in words]


def ledger(folder: Path) -> Path:
    with Ledger(folder / "ledger.sqlite") as created:
        created.set_budget(Account("c"), epsilon=2, delta=1e-7)
    return folder / "ledger.sqlite"


@contextmanager
def interrupted_at(store: object, prefix: str) -> Iterator[None]:
    """Fail every deletion below a prefix in stores of the kind of `store`."""
    whole = type(store).remove_below

    def interrupted(self: object, below: str) -> None:
        if below == prefix:
            raise InterruptedRun("the object store gave no usable answer")
        whole(self, below)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(store), "remove_below", interrupted)
        with pytest.raises(InterruptedRun):
            yield


def contents(location: Location) -> dict[str, bytes]:
    store = store_at(location)
    return {key: store.read(key) for key in store.all_keys()}
