"""The table of faults: what is changed in the product, why it matters, and which tests must fail.

Each file ``faults/*.toml`` lists product files, and for each of them the tests that are run and the
faults by name. A fault has

``old``, ``new``
    Text that occurs exactly once in the product file, and what takes its place.
``why``
    What the fault would cost.
``tests``
    Tests to run in place of those of the file (optional).
``slow_tests``
    Tests of the slow tier that fail, where the quick ones do not (optional).
``explained``
    Why no test can fail: the fault changes nothing that anybody could see (optional).
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLES = Path(__file__).with_name("faults")


class BrokenTableError(Exception):
    """A fault that does not fit the product any more, or that two faults have one name."""


@dataclass(frozen=True)
class Fault:
    """One change of one product file."""

    name: str  # unique
    path: str  # product file, relative to the root of the tree
    old: str  # text that occurs exactly once in the file
    new: str  # what takes its place
    why: str  # what the fault would cost
    # Test files to run, relative to the root; those most likely to fail first.
    tests: tuple[str, ...]
    slow_tests: tuple[str, ...] = ()  # of the slow tier, which fail where the quick tests pass
    explained: str = ""  # why no test can fail; empty where one must

    @property
    def package(self) -> str:
        """Package of the product that the file belongs to, such as ``gaussian``."""
        return self.path.split("/")[1]

    def applied_to(self, content: str) -> str:
        """Return the content of the product file with the fault in it.

        An old text that does not occur exactly once raises a BrokenTableError.
        """
        count = content.count(self.old)
        if count != 1:
            raise BrokenTableError(f"{self.name}: {count} places in {self.path} have its old text")
        return content.replace(self.old, self.new)


def read_faults() -> list[Fault]:
    """Return all faults, table by table.

    Two faults of one name, and an unknown or missing entry, raise a BrokenTableError.
    """
    faults = [fault for path in sorted(TABLES.glob("*.toml")) for fault in _faults_in(path)]
    names = [fault.name for fault in faults]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BrokenTableError(f"names of several faults: {', '.join(twice)}")
    return faults


def _faults_in(path: Path) -> Iterator[Fault]:
    for file in tomllib.loads(path.read_text(encoding="utf-8"))["file"]:
        for name, entry in file["fault"].items():
            lists = {
                "tests": tuple(entry.get("tests", file["tests"])),
                "slow_tests": tuple(entry.get("slow_tests", ())),
            }
            try:
                yield Fault(name, file["path"], **{**entry, **lists})
            except TypeError as error:
                raise BrokenTableError(f"{path.name}: {name}: {error}") from error
