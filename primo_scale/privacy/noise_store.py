"""Store of the noise keys and private statistics of a work directory, by charge.

The store prevents that noise is drawn twice for one charge. A charge has these files, in this
order:

``CHARGE.unused``
    Key of a keystream from which nothing was drawn. It is durable before the charge is.
``CHARGE.key``
    The same key, renamed before the first draw. A run that dies while it draws noise is continued
    with the same noise.
``CHARGE.zarr`` or ``CHARGE.npy``
    Private statistics, or the noisy values of one party. The key is removed after the ledger has
    recorded them.
``CHARGE.hold_out.json``
    Noisy sums over the people held out, if there are any; the key is removed after them.

``adjustment.json`` beside the directory also names a charge. It holds the noisy Gram matrices by
which phenotypes are adjusted.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from primo_scale.errors import InputError, remedy_extended
from primo_scale.gaussian.keystream_noise import KEY_BYTES
from primo_scale.ledger.reservation import random_charge_id
from primo_scale.ledger.spending import Charge
from primo_scale.machine import refuse_full_disk
from primo_scale.privacy.private_statistics import is_drawn
from primo_scale.storage.encryption import decrypt_file, encrypt_file_content
from primo_scale.storage.files import (
    make_private_directory,
    read_fields,
    sync_directory,
    write_atomically,
)


@dataclass(frozen=True)
class NoisyAdjustment:
    """Noisy Gram matrices by which phenotypes are adjusted; public once they are paid for."""

    grams: tuple[tuple[tuple[int, ...], ...], ...]  # of (c, y) for each of the l phenotypes
    sigma: float  # standard deviation of the noise on the diagonals, in lattice units
    charge: str  # identifier of the charge that paid


@dataclass(frozen=True)
class NoiseStore:
    """Noise keys and private statistics in a directory. PRIVATE: a key reveals its noise.

    Both are encrypted if the work directory is.
    """

    directory: Path

    @property
    def adjustment_path(self) -> Path:
        """Path of the noisy Gram matrices by which phenotypes are adjusted."""
        return self.directory.with_name("adjustment.json")

    def charges(self) -> frozenset[str]:
        """Return the charges whose noise, or whose noise key, is stored.

        A damaged adjustment raises an InputError.
        """
        pays_again = "It holds noise that was paid for: without it the same command pays again"
        with remedy_extended(lambda: pays_again, where=self.directory):
            drawn = {charge for charge, path in self._files("zarr").items() if is_drawn(path)}
        adjustment = self.read_adjustment()
        drawn |= set() if adjustment is None else {adjustment.charge}
        return frozenset(drawn.union(self._files("npy", "key", "unused")))

    def unused_charges(self) -> frozenset[str]:
        """Return the charges with a key from which nothing was drawn."""
        return frozenset(self._files("unused"))

    def used_charges(self) -> dict[str, Path]:
        """Return the charges whose noise may exist, each with the file that names it.

        A damaged adjustment raises an InputError.
        """
        found = self._files("zarr", "npy", "key")
        adjustment = self.read_adjustment()
        if adjustment is None:
            return found
        return {adjustment.charge: self.adjustment_path, **found}

    def read_adjustment(self) -> NoisyAdjustment | None:
        """Return the noisy adjustment that an earlier run stored, or None.

        A damaged document raises an InputError.
        """
        moments = self.directory.with_name("phenotype_moments.json")
        if moments.is_file():
            raise InputError(
                "was paid for by version 0.4, which alone can finish its release",
                where=moments,
                remedy="Finish it with that version, or use another --work-dir, which pays again",
            )
        if not self.adjustment_path.is_file():
            return None
        remedy = "Restore the file; without it the same command pays again"
        return read_fields(self.adjustment_path, NoisyAdjustment, remedy=remedy)

    def statistics_path(self, charge: str) -> Path:
        """Return the path of a charge's private statistics."""
        return self.directory / f"{charge}.zarr"

    def values_path(self, charge: str) -> Path:
        """Return the path of a party's noisy values."""
        return self.directory / f"{charge}.npy"

    def hold_out_path(self, charge: str) -> Path:
        """Return the path of the noisy sums over the people that a charge's release held out."""
        return self.directory / f"{charge}.hold_out.json"

    def second_round_path(self, charge: str) -> Path:
        """Return the path of the noisy sums of the second round of a charge's release."""
        return self.directory / f"{charge}.second_round.json"

    def create_key(self, unpaid: Collection[str]) -> str:
        """Create a durable key and return the identifier of its new charge.

        The unused keys of `unpaid` are removed, so that they never serve another request. The
        ledger does not know these charges, because a run died before they were durable. An
        InputError or a ResourceError is raised if the key cannot be written.
        """
        charge = random_charge_id()
        path = self._key_file(charge, "unused")
        with remedy_extended(lambda: "No budget was spent", where=path):
            for old in unpaid:
                self._key_file(old, "unused").unlink(missing_ok=True)
            make_private_directory(self.directory)
            write_atomically(path, encrypt_file_content(os.urandom(KEY_BYTES), charge))
        return charge

    def open_key(self, charge: str) -> bytes:
        """Return the key of a charge, after marking it durably as used.

        A missing or damaged key raises an InputError. No new key is created, because it would draw
        a second noise.
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

    def has_key(self, charge: str) -> bool:
        """Return whether the key of a charge is stored, used or not."""
        return any(self._key_file(charge, end).is_file() for end in ("key", "unused"))

    def remove_key(self, charge: str) -> None:
        """Remove durably the key of a charge whose private statistics are recorded."""
        if self.directory.is_dir():
            self._key_file(charge, "key").unlink(missing_ok=True)
            sync_directory(self.directory)  # also if an earlier run died right after the removal

    @contextmanager
    def payment_explained(self, charge: str) -> Iterator[None]:
        """Extend the remedy of an error after a payment by the amount that a retry spends."""

        def spending() -> str:
            """Return the sentence that matches the files at the time of the error."""
            if self.has_key(charge):
                return (
                    f"Budget was spent, on charge {charge}: the same command continues with the "
                    "same noise and spends nothing more"
                )
            results = (self.statistics_path(charge), self.values_path(charge))
            stored = next((path for path in results if path.exists()), self.adjustment_path)
            return (
                f"Budget was spent, on charge {charge}, whose noise is stored at "
                f"{stored}: while that is intact, the same command spends nothing more; without "
                "it the release has to be paid again"
            )

        with remedy_extended(spending, where=self.directory):
            yield

    def refuse_full_disk(self, paid: Charge | None, needed: int) -> None:
        """Refuse to pay for private statistics of `needed` bytes that do not fit on the disk.

        The statistics of `paid`, a charge that is not paid again, may already be stored, or a part
        of them. A ResourceError is raised if the rest does not fit.
        """
        if paid is not None:
            store = self.statistics_path(paid.id)
            if is_drawn(store) or self.values_path(paid.id).is_file():
                return
            needed -= sum(path.stat().st_size for path in store.rglob("*") if path.is_file())
        refuse_full_disk(
            self.directory,
            needed,
            what="the private statistics",
            remedy="Free space, then run the same command again",
        )

    def _files(self, *ends: str) -> dict[str, Path]:
        """Return the files with any of these ends by their charge; a later end takes precedence."""
        return {path.stem: path for end in ends for path in self.directory.glob(f"*.{end}")}

    def _key_file(self, charge: str, end: str) -> Path:
        return self.directory / f"{charge}.{end}"
