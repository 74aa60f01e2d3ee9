"""Noise that charges have bought, kept in the work directory so that no noise is drawn twice.

The files of a charge, in the order in which they exist:

``CHARGE.unused``
    Key of a keystream from which nothing has been drawn. It is durable before the charge is.
``CHARGE.key``
    The same key from the moment at which the draw may begin. A run that dies while it draws is
    continued with the very same noise.
``CHARGE.zarr``
    The private statistics. The key is removed once the ledger has recorded them.

Two files beside the directory name a charge as well: ``phenotype_moments.json`` holds the noisy
phenotype moments that it bought, and ``statistics.charge`` says which release a subsample served.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from primo_scale.errors import InputError, remedy_extended
from primo_scale.gaussian.keystream_noise import KEY_BYTES
from primo_scale.machine import refuse_full_disk
from primo_scale.privacy.private_statistics import is_drawn
from primo_scale.storage.documents import of_type, read_document
from primo_scale.storage.encryption import decrypt_file, encrypt_file_content
from primo_scale.storage.files import make_private_directory, sync_directory, write_atomically


@dataclass(frozen=True)
class NoiseStore:
    """Keys and private statistics of a work directory, by charge. PRIVATE: a key undoes its noise.

    With an encryption key both are encrypted.

    Attributes
    ----------
    directory
        Directory of the keys and the private statistics.
    """

    directory: Path

    @property
    def moments_path(self) -> Path:
        """Path of the noisy phenotype moments."""
        return self.directory.with_name("phenotype_moments.json")

    @property
    def subsample_use_path(self) -> Path:
        """Path of the file that names the charge which a subsample served."""
        return self.directory.with_name("statistics.charge")

    def charges(self) -> frozenset[str]:
        """Return the charges whose noise is here, or can be drawn from a key that is here."""
        pays_again = "It holds noise that was paid for: without it the same command pays again"
        with remedy_extended(lambda: pays_again, where=self.directory):
            drawn = {path.stem for path in self.directory.glob("*.zarr") if is_drawn(path)}
        return (
            frozenset(drawn | {path.stem for path in self.directory.glob("*.key")})
            | self.unused_charges()
        )

    def unused_charges(self) -> frozenset[str]:
        """Charges from whose key nothing has been drawn."""
        return frozenset(path.stem for path in self.directory.glob("*.unused"))

    def used_charges(self) -> dict[str, Path]:
        """Return the charges whose noise may exist, each with the file that names it.

        Raises
        ------
        InputError
            The phenotype moments are damaged.
        """
        found = {
            path.stem: path for end in ("zarr", "key") for path in self.directory.glob(f"*.{end}")
        }
        if self.subsample_use_path.is_file():
            found[self.subsample_use_path.read_text(errors="replace")] = self.subsample_use_path
        moments = self.read_moments()
        return found if moments is None else {**found, moments["charge"]: self.moments_path}

    def read_moments(self) -> dict[str, Any] | None:
        """Return the document of the noisy phenotype moments, or None where there is none.

        Raises
        ------
        InputError
            The file is not such a document.
        """
        if not self.moments_path.is_file():
            return None
        return read_document(
            self.moments_path,
            _moments_from,
            remedy="Restore the file; without it the same command pays again",
        )

    def statistics_path(self, charge: str) -> Path:
        """Return the path of a charge's private statistics."""
        return self.directory / f"{charge}.zarr"

    def create_key(self, unpaid: Collection[str]) -> str:
        """Return the name of a new charge whose key is durable.

        Parameters
        ----------
        unpaid
            Charges with unused keys that the ledger does not know: a run died before its charge was
            durable. Their keys are removed, and never serve another request.

        Raises
        ------
        InputError, ResourceError
            The key cannot be written.
        """
        charge = secrets.token_hex(8)
        path = self._key_file(charge, "unused")
        with remedy_extended(lambda: "No budget was spent", where=path):
            for old in unpaid:
                self._key_file(old, "unused").unlink(missing_ok=True)
            make_private_directory(self.directory)
            write_atomically(path, encrypt_file_content(os.urandom(KEY_BYTES), charge))
        return charge

    def open_key(self, charge: str) -> bytes:
        """Return the key of a charge, recorded durably as one from which noise may be drawn.

        Raises
        ------
        InputError
            The key is missing or damaged. No other one is made: it would be a second noise.
        """
        unused, key = self._key_file(charge, "unused"), self._key_file(charge, "key")
        if not key.is_file():
            if not unused.is_file():
                raise InputError("the key of the noise is missing", where=key)
            unused.rename(key)
            sync_directory(self.directory)
        secret = decrypt_file(key, charge)
        if len(secret) != KEY_BYTES:
            raise InputError(
                "the key of the noise is damaged",
                where=key,
                value=f"{len(secret)} bytes",
                limit=KEY_BYTES,
            )
        return secret

    def remove_key(self, charge: str) -> None:
        """Remove the key, durably, once the private statistics are recorded: it undoes noise."""
        if self.directory.is_dir():
            self._key_file(charge, "key").unlink(missing_ok=True)
            sync_directory(self.directory)  # also if an earlier run removed it and got no further

    @contextmanager
    def payment_explained(self, charge: str) -> Iterator[None]:
        """Add to an error that arises after a payment what was spent, and what a retry spends."""

        def said() -> str:
            """Return the sentence that fits what is stored when the error arises."""
            if any(self._key_file(charge, end).is_file() for end in ("key", "unused")):
                return (
                    f"Budget was spent, on charge {charge}: the same command continues with the "
                    "same noise and spends nothing more"
                )
            return (
                f"Budget was spent, on charge {charge}, whose noise is stored at "
                f"{self._result(charge)}: while that is whole the same command spends nothing "
                "more, and without it the same command pays again"
            )

        with remedy_extended(said, where=self.directory):
            yield

    def refuse_full_disk(self, replayed: str | None, needed: int) -> None:
        """Refuse to pay for private statistics that would not fit on the disk.

        Parameters
        ----------
        replayed
            Charge that is not paid again, whose statistics may be here in part or whole.
        needed
            Size of the private statistics, in bytes.

        Raises
        ------
        ResourceError
            There is less room than is still to be written.
        """
        if replayed is not None:
            store = self.statistics_path(replayed)
            if is_drawn(store):
                return
            needed -= sum(path.stat().st_size for path in store.rglob("*") if path.is_file())
        refuse_full_disk(
            self.directory,
            needed,
            what="the private statistics",
            remedy="Make room, and run the same command again",
        )

    def _key_file(self, charge: str, end: str) -> Path:
        return self.directory / f"{charge}.{end}"

    def _result(self, charge: str) -> Path:
        return (
            self.statistics_path(charge)
            if self.statistics_path(charge).exists()
            else self.moments_path
        )


def _moments_from(value: dict[str, Any]) -> dict[str, Any]:
    return {
        "sums": [[of_type(int, number) for number in row] for row in value["sums"]],
        "sigma": of_type(float, value["sigma"]),
        "charge": of_type(str, value["charge"]),
    }
