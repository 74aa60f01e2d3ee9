"""Parties with small tables of the same people."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from primo_scale.parties.columns import packed_signs
from primo_scale.parties.release import PartyReleaseRequest, party_roster
from primo_scale.storage.stores import make_key_file
from primo_scale.verify.document import Mixtures

SEED = "00112233445566778899aabbccddeeff"
N_PEOPLE = 600


@dataclass(frozen=True)
class Party:
    name: str
    table: Path
    columns: tuple[str, ...]


def write_table(path: Path, people: list[str], columns: dict[str, np.ndarray]) -> Path:
    lines = [" ".join(["#IID", *columns])]
    for row, person in enumerate(people):
        cells = [f"{values[row]:.17g}" for values in columns.values()]
        lines.append(" ".join([person, *("NA" if cell == "nan" else cell for cell in cells)]))
    path.write_text("\n".join(lines) + "\n")
    return path


def make_parties(directory: Path) -> tuple[Party, ...]:
    rng = np.random.default_rng(7)
    X = rng.uniform(-1, 1, (N_PEOPLE, 3))
    y = 5 + X @ [1.0, -0.5, 0.25] + rng.normal(0, 0.1, N_PEOPLE)
    values = {"a": X[:, 0], "b": X[:, 1], "c": 10 * X[:, 2], "y": y}
    parties = []
    for name, columns in (("one", ("a", "b")), ("two", ("c",)), ("three", ("y",))):
        order = rng.permutation(N_PEOPLE)
        table = {column: values[column][order] for column in columns}
        people = [f"P{i:04d}" for i in order]
        path = write_table(directory / f"{name}.tsv", people, table)
        parties.append(Party(name, path, columns))
    (directory / "bounds.txt").write_text(
        "name lower upper\na -1 1\nb -1 1\nc -10 10\ny 3 7\n", encoding="utf-8"
    )
    make_key_file(directory / "key")
    party_roster(people=parties[0].table, party_key=directory / "key", out=directory / "roster")
    return tuple(parties)


def request_of(owner: Party, directory: Path, **changes: object) -> PartyReleaseRequest:
    given = {
        "party": owner.name,
        "roster": directory / "roster",
        "party_key": directory / "key",
        "pheno": owner.table,
        "pheno_bounds": directory / "bounds.txt",
        "pheno_name": owner.columns,
        "epsilon": 5.0,
        "delta": 1e-5,
        "ledger": directory / f"ledger-{owner.name}",
        "out": directory / f"release-{owner.name}",
    }
    return PartyReleaseRequest(**{**given, **changes})


def signs_of(mixtures: Mixtures, positions: np.ndarray) -> np.ndarray:
    bits = np.unpackbits(packed_signs(mixtures, positions), axis=0, count=mixtures.count)
    return 2 * bits.T.astype(np.int64) - 1
