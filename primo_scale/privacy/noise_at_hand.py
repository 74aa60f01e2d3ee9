"""What each charge bought, kept in the work directory so that a retry draws nothing twice.

For a charge there is ``CHARGE.key`` while its noise is being drawn from a keystream, and then
``CHARGE.zarr``, the private statistics. The key is durable before the first draw, so a run that
dies while drawing is continued with the very same noise. Without either, the noise is lost.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from primo_scale.machine import refuse_full_disk
from primo_scale.privacy.keystream_noise import KEY_BYTES
from primo_scale.privacy.private_statistics import is_drawn
from primo_scale.storage.encryption import open_file, seal_file
from primo_scale.storage.files import make_private_directory, sync_directory, write_atomically


@dataclass(frozen=True)
class NoiseAtHand:
    """A directory of keys and private statistics, by charge. PRIVATE: a key undoes its noise.

    Under an encryption key of the user's both are encrypted.
    """

    directory: Path

    def charges(self) -> frozenset[str]:
        """Charges whose noise is here, drawn or still to be drawn from its key."""
        if not self.directory.is_dir():
            return frozenset()
        drawn = {path.stem for path in self.directory.glob("*.zarr") if is_drawn(path)}
        return frozenset(drawn | {path.stem for path in self.directory.glob("*.key")})

    def store(self, charge: str) -> Path:
        """Where the private statistics of a charge are, or go."""
        return self.directory / f"{charge}.zarr"

    def key(self, charge: str) -> bytes:
        """The charge's key: the one that is here, or a new one, durable before it is given."""
        path = self.directory / f"{charge}.key"
        if not path.is_file():
            make_private_directory(self.directory)
            write_atomically(path, seal_file(os.urandom(KEY_BYTES), path.stem))
        return open_file(path, path.stem)

    def refuse_full_disk(self, replayed: str | None, needed: int) -> None:
        """Refuse to pay for private statistics that would not fit on the disk.

        Parameters
        ----------
        replayed
            The charge that is not paid again, whose statistics may be here in part or whole.
        needed
            Bytes of the private statistics.

        Raises
        ------
        ResourceError
            There is less room than is still to be written.
        """
        if replayed is not None:
            store = self.store(replayed)
            if is_drawn(store):
                return
            needed -= sum(path.stat().st_size for path in store.rglob("*") if path.is_file())
        refuse_full_disk(
            self.directory,
            needed,
            what="the private statistics",
            remedy="Make room, and run the same command again",
        )

    def forget_key(self, charge: str) -> None:
        """Remove the key, durably, once the private statistics are recorded: it undoes noise."""
        (self.directory / f"{charge}.key").unlink(missing_ok=True)
        sync_directory(self.directory)  # after power loss too; an earlier run may not have got here
