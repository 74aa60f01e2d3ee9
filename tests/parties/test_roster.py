"""Rosters: people are found by keyed hashes alone, in the same order everywhere."""

import hashlib
import hmac
from pathlib import Path

import pytest

from primo_scale.errors import InputError
from primo_scale.parties.columns import hash_people, make_roster, read_roster, write_roster
from primo_scale.storage.stores import make_key_file


@pytest.fixture
def key(tmp_path: Path) -> Path:
    make_key_file(tmp_path / "key")
    return tmp_path / "key"


def test_hash_is_hmac_sha256() -> None:
    expected = hmac.new(b"k" * 32, b"primo_scale roster, person\0P1", hashlib.sha256).hexdigest()
    assert hash_people(["P1"], b"k" * 32)[0].decode() == expected[:32]


def test_parties_find_the_same_roster_from_different_files(tmp_path: Path, key: Path) -> None:
    lists = (["b", "a", "c", "x"], ["c", "z", "b", "a"], ["y", "a", "b"])
    files = []
    for position, people in enumerate(lists):
        files.append(tmp_path / f"{position}.roster")
        write_roster(make_roster(people, key), files[-1])
    common = [make_roster(people, key, files) for people in lists]
    assert {roster.tag for roster in common} == {common[0].tag}
    assert len(common[0]) == 2
    for people, roster in zip(lists, common, strict=True):
        found = dict(zip(people, roster.positions(people), strict=True))
        assert sorted(found[person] for person in "ab") == [0, 1]
        assert {found[person] for person in people if person not in "ab"} <= {-1}
    assert files[0].stat().st_mode & 0o077 == 0


def test_a_notebook_does_not_show_the_key(key: Path) -> None:
    assert repr(make_roster(["a"], key)) == "Roster(1 people)"


def test_another_key_shares_nobody(tmp_path: Path, key: Path) -> None:
    make_key_file(tmp_path / "other")
    write_roster(make_roster(["a", "b"], tmp_path / "other"), tmp_path / "roster")
    with pytest.raises(InputError, match="nobody in common"):
        make_roster(["a", "b"], key, [tmp_path / "roster"])


def test_two_people_with_one_iid_are_refused(key: Path) -> None:
    with pytest.raises(InputError, match="same IID"):
        make_roster(["a", "b", "a"], key)


HEADER, ONE, TWO = b"#primo_scale roster 1\n", b"a" * 32 + b"\n", b"b" * 32 + b"\n"


@pytest.mark.parametrize(
    "content",
    [b"", HEADER, b"a\nb\n", HEADER + b"g" * 32 + b"\n", HEADER + TWO + ONE, HEADER + ONE + ONE],
)
def test_what_is_no_roster_is_refused(tmp_path: Path, key: Path, content: bytes) -> None:
    (tmp_path / "roster").write_bytes(content)
    with pytest.raises(InputError, match="is not a roster"):
        read_roster(tmp_path / "roster", key)
