"""Encryption at rest: the work directory is unreadable without the key, and changes are found."""

import hmac
import json
import shutil
import stat
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from support.command_io import digest_in
from support.durable import disk_seen
from support.security_runs import run
from support.small_cohort import command
from support.stores import VALUES, swap, write_store

from primo_scale.cli.commands import key_new
from primo_scale.errors import InputError
from primo_scale.privacy.payment import NoiseStore
from primo_scale.run.run_log import RUN_LOG
from primo_scale.storage.groups import (
    FORMAT_VERSIONS,
    array_of,
    attributes_of,
    chunk_path,
    create_group,
    is_complete,
    open_group,
    read_block,
    write_array,
)
from primo_scale.storage.stores import (
    KEY_VARIABLE,
    encrypted_with,
    key_identifier,
    make_key_file,
    read_key_file,
)


@pytest.fixture
def another_key(tmp_path) -> Path:
    make_key_file(tmp_path / "another.key")
    return tmp_path / "another.key"


def array_at(path: Path, name: str = "a"):
    return array_of(open_group(path, "statistics"), name)


def contents(directory: Path) -> bytes:
    return b"".join(p.read_bytes() for p in sorted(directory.rglob("*")) if p.is_file())


def test_a_store_reads_back_and_its_files_disclose_nothing(tmp_path, key, monkeypatch) -> None:
    write_store(tmp_path / "s.zarr")
    np.testing.assert_array_equal(read_block(array_at(tmp_path / "s.zarr")), VALUES)
    attributes = attributes_of(open_group(tmp_path / "s.zarr", "statistics"))
    assert attributes == {"first": "guess-me", "sha256": "confirm-me"}
    monkeypatch.delenv(KEY_VARIABLE)
    write_store(tmp_path / "plain.zarr")
    for words in (VALUES[:2].tobytes(), b"guess-me", b"confirm-me"):
        assert words in contents(tmp_path / "plain.zarr")
        assert words not in contents(tmp_path / "s.zarr")
    assert key.read_bytes() not in contents(tmp_path / "s.zarr")


def test_the_same_content_is_never_sealed_twice_alike(tmp_path, key) -> None:
    group = create_group(tmp_path / "s.zarr", "statistics", {})
    seen = set()
    for _ in range(5):
        array = write_array(group, "a", np.zeros_like(VALUES), (2, 6))
        seen |= {chunk_path(array, (row, 0)).read_bytes() for row in range(2)}
    assert len(seen) == 10
    assert len({sealed[:12] for sealed in seen}) == 10
    assert {len(sealed) for sealed in seen} == {2 * 6 * 8 + 12 + 16}


def test_the_documented_recipe_opens_a_chunk_with_the_key(tmp_path, key) -> None:
    """The recipe is HKDF (RFC 5869) of key and store, and AES-256-GCM with the file's name."""
    write_store(tmp_path / "s.zarr")
    header = json.loads((tmp_path / "s.zarr" / "zarr.json").read_text())["attributes"]
    salt = bytes.fromhex(header["encryption"]["store"])
    extracted = hmac.digest(salt, key.read_bytes(), "sha256")
    store_key = hmac.digest(extracted, b"primo_scale store\x01", "sha256")

    def opened(name: str) -> bytes:
        sealed = (tmp_path / "s.zarr" / name).read_bytes()
        return AESGCM(store_key).decrypt(sealed[:12], sealed[12:], name.encode())

    chunk = np.frombuffer(opened("a/c/1/0"), "<i8")
    np.testing.assert_array_equal(chunk.reshape(2, 6), VALUES[2:])
    assert json.loads(opened("a/zarr.json"))["shape"] == [4, 6]


def test_a_wrong_key_no_key_and_a_key_too_many_are_one_line(
    tmp_path, key, another_key, monkeypatch
) -> None:
    write_store(tmp_path / "s.zarr")
    found, wanted = key_identifier(read_key_file(another_key)), key_identifier(read_key_file(key))
    monkeypatch.setenv(KEY_VARIABLE, str(another_key))
    for question in (is_complete, open_group):
        with pytest.raises(
            InputError, match=f"another key .found key {found}, expected key {wanted}."
        ):
            question(tmp_path / "s.zarr", "statistics")
    monkeypatch.delenv(KEY_VARIABLE)
    with pytest.raises(InputError, match=f"is encrypted .got key {wanted}.*--encryption-key"):
        open_group(tmp_path / "s.zarr", "statistics")
    write_store(tmp_path / "plain.zarr")
    monkeypatch.setenv(KEY_VARIABLE, str(key))
    with pytest.raises(InputError, match="is not encrypted"):
        open_group(tmp_path / "plain.zarr", "statistics")


def test_a_flipped_bit_and_a_torn_chunk_are_found(tmp_path, key) -> None:
    """The damage is in the nonce, the content or the tag."""
    write_store(tmp_path / "s.zarr")
    chunk = chunk_path(array_at(tmp_path / "s.zarr"), (0, 0))
    whole = chunk.read_bytes()
    flipped = (whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
               for at in (0, 11, 12, 60, len(whole) - 17, len(whole) - 1))  # fmt: skip
    for damaged in (*flipped, *(whole[:kept] for kept in (0, 11, 27, 28, 100))):
        chunk.write_bytes(damaged)
        with pytest.raises(InputError, match="damaged"):
            read_block(array_at(tmp_path / "s.zarr"))


def test_what_describes_arrays_is_sealed_and_refused_when_swapped_or_laid_open(
    tmp_path, key, monkeypatch
) -> None:
    """Shapes disclose n and m, and a forged shape would exchange people."""
    write_store(tmp_path / "s.zarr")
    for path in (tmp_path / "s.zarr").rglob("*"):
        clear = path.is_file() and any(word in path.read_bytes() for word in (b"shape", b"codecs"))
        assert not clear, path
    monkeypatch.delenv(KEY_VARIABLE)
    write_store(tmp_path / "plain.zarr")
    monkeypatch.setenv(KEY_VARIABLE, str(key))
    one, other = (tmp_path / "s.zarr" / name / "zarr.json" for name in "ab")
    swap(one, other)
    for name in "ab":
        with pytest.raises(InputError, match="the store is damaged"):
            array_at(tmp_path / "s.zarr", name)
    shutil.copy(tmp_path / "plain.zarr" / "a" / "zarr.json", one)
    with pytest.raises(InputError, match="the store is damaged"):
        array_at(tmp_path / "s.zarr")


def test_nobody_without_the_key_calls_a_store_complete(tmp_path, key) -> None:
    create_group(tmp_path / "s.zarr", "statistics", {"first": 1})
    header = tmp_path / "s.zarr" / "zarr.json"
    assert attributes_of(open_group(tmp_path / "s.zarr", "statistics", complete=False))
    header.write_text(header.read_text().replace('"complete": false', '"complete": true'))
    with pytest.raises(InputError, match="the store is damaged"):
        attributes_of(open_group(tmp_path / "s.zarr", "statistics"))


def test_changed_attributes_are_found(tmp_path, key) -> None:
    write_store(tmp_path / "s.zarr")
    path = tmp_path / "s.zarr" / "zarr.json"
    document = json.loads(path.read_text())
    sealed = document["attributes"]["sealed"]
    another = "B" if sealed[-8] == "A" else "A"
    document["attributes"]["sealed"] = sealed[:-8] + another + sealed[-7:]
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match="the store is damaged"):
        attributes_of(open_group(tmp_path / "s.zarr", "statistics"))


def test_the_key_of_the_noise_is_sealed_while_it_exists(tmp_path, key, monkeypatch) -> None:
    """With this key and the release, anybody could remove the noise."""
    noise_store = NoiseStore(tmp_path / "private_statistics")
    charge = noise_store.create_key(())
    noise = noise_store.open_key(charge)
    file = noise_store.directory / f"{charge}.key"
    assert noise not in file.read_bytes()
    assert noise_store.open_key(charge) == noise
    file.rename(noise_store.directory / "charge2.key")
    with pytest.raises(InputError, match="damaged"):
        noise_store.open_key("charge2")
    monkeypatch.delenv(KEY_VARIABLE)
    with pytest.raises(InputError, match="is encrypted"):
        noise_store.open_key("charge2")
    plain = noise_store.create_key(())
    assert noise_store.open_key(plain) == (noise_store.directory / f"{plain}.key").read_bytes()
    monkeypatch.setenv(KEY_VARIABLE, str(key))
    with pytest.raises(InputError, match="is not encrypted"):
        noise_store.open_key(plain)  # else a writer of the directory would choose the noise


def test_key_files_are_checked(tmp_path, monkeypatch) -> None:
    result = command(key_new, tmp_path / "k")
    assert (result.exit_code, stat.S_IMODE((tmp_path / "k").stat().st_mode)) == (0, 0o600)
    assert key_identifier(read_key_file(tmp_path / "k")) in result.stdout
    assert command(key_new, tmp_path / "k").exit_code == 3
    (tmp_path / "k").chmod(0o640)
    with pytest.raises(InputError, match="other users may read"):
        read_key_file(tmp_path / "k")
    (tmp_path / "short").write_bytes(b"x" * 31)
    (tmp_path / "short").chmod(0o600)
    with pytest.raises(InputError, match="31 bytes"):
        read_key_file(tmp_path / "short")
    monkeypatch.setenv(KEY_VARIABLE, str(tmp_path / "none"))
    with pytest.raises(InputError, match="no such key file"), encrypted_with(None):
        pytest.fail("an exported variable counts, and is checked at once")


def release(cohort, directory: Path, *options: object) -> bytes:
    result = run(
        "gwas_release", "--bfile", cohort.directory / "cohort", *cohort.outcome_options,
        "--epsilon", 3, "--delta", 1e-6, "--workers", 1, "--out", directory / "release",
        "--ledger", directory / "ledger.sqlite", *options,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return digest_in(result.stdout).encode()


def pieces(directory: Path) -> set[bytes]:
    """Return each 16 bytes of every chunk, in steps of 8, except those with few distinct bytes."""
    found = set()
    for path in directory.rglob("c/**/*"):
        content = path.read_bytes() if path.is_file() else b""
        found |= {content[i : i + 16] for i in range(0, len(content) - 15, 8)}
    return {piece for piece in found if len(set(piece)) > 6}


@pytest.mark.slow
def test_a_whole_release_leaves_nothing_about_people_in_the_clear(
    cohort, tmp_path, running_cluster
) -> None:
    secret, plain = tmp_path / "secret", tmp_path / "plain"
    key = tmp_path / "user.key"
    make_key_file(key)
    for directory in (secret, plain):
        directory.mkdir()
    in_plain = release(cohort, plain)
    in_secret = release(cohort, secret, "--encryption-key", key)
    stores = ("outcomes.zarr", "statistics.zarr", "private_statistics")
    for store in stores:
        in_the_clear = pieces(plain / "release.work" / store)
        sealed = pieces(secret / "release.work" / store)
        assert len(in_the_clear) > 30  # some pieces of noise are left out
        assert not in_the_clear & sealed
    everything = contents(secret / "release.work")
    assert in_plain in contents(plain / "release.work" / "statistics.zarr")
    assert in_plain in (plain / "release.work" / RUN_LOG).read_bytes()
    assert in_secret not in everything
    assert key.read_bytes() not in everything
    assert "verified" in run("verify", secret / "release").stdout

    # The key does not travel to a worker that was started without it, whose task then fails.
    shutil.rmtree(secret / "release.work" / "statistics.zarr")
    result = run(
        "accumulate", "--genotypes", secret / "release.work" / "genotypes.zarr",
        *cohort.outcome_options, "--epsilon", 3, "--delta", 1e-6, "--work-dir",
        secret / "release.work", "--encryption-key", key, *running_cluster.options,
        "--ledger", secret / "ledger.sqlite",
    )  # fmt: skip
    assert result.returncode == 3
    assert "is encrypted" in result.stderr
    assert KEY_VARIABLE in result.stderr


@pytest.mark.parametrize("kind", sorted(FORMAT_VERSIONS))
def test_every_kind_of_private_store_is_encrypted_under_a_key(tmp_path, key, kind) -> None:
    create_group(tmp_path / "s.zarr", kind, {"private": "guess-me"})
    assert (b"guess-me" in contents(tmp_path / "s.zarr")) is (
        kind in ("genotypes", "dosages", "ld components", "own directions")
    )


def test_a_new_key_is_durable(tmp_path) -> None:
    with disk_seen() as disk:
        make_key_file(tmp_path / "key")
        assert disk.has_content(tmp_path / "key")
