"""Where a run keeps what its workers exchange: the work directory, or a prefix of a bucket."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

from pipelines.command_line import LOGGER
from primo_scale.errors import InputError
from primo_scale.storage.files import write_atomically
from primo_scale.storage.place_store import no_conditional_put
from primo_scale.storage.places import ObjectUrl, Place
from primo_scale.storage.stores import store_at

STORE, OUTCOMES, PARTIALS = "genotypes.zarr", "outcomes.zarr", "partials.zarr"
_CLAIM = "claim"


@dataclass(frozen=True)
class WorkPlaces:
    """What workers read and write. All else of a run stays in the work directory.

    Attributes
    ----------
    genotypes
        The store of ``gwas_release``.
    outcomes
        Lattice rows.
    partials
        Committed results of tasks.
    """

    genotypes: Place
    outcomes: Place
    partials: Place


def work_places(work_dir: Path, object_store: ObjectUrl | None) -> WorkPlaces:
    """The places of a run; ``--object-store`` is for workers that do not see the work directory."""
    where: Place = work_dir if object_store is None else object_store
    return WorkPlaces(where / STORE, where / OUTCOMES, where / PARTIALS)


def claim(object_store: ObjectUrl, work_dir: Path) -> None:
    """Let one work directory use a prefix: its lock then keeps two runs apart there as well.

    The first run writes the name of its work directory, drawn at random, by conditional put.

    Raises
    ------
    InputError
        Another work directory uses the prefix, or the service knows no conditional put.
    """
    ours = work_dir / "object_store.claim"
    if not ours.is_file():
        write_atomically(ours, secrets.token_hex(16).encode())
    name, store = ours.read_bytes(), store_at(object_store)
    if store.put_if_absent(_CLAIM, name):
        # Some services take the condition and ignore it: then this does not fail, as it must.
        if store.put_if_absent(_CLAIM, name):
            raise no_conditional_put(object_store)
    elif store.read(_CLAIM) != name:
        raise InputError(
            "another work directory keeps its partial sums there",
            where=str(object_store),
            remedy=f"Choose another --object-store; or, if that run is given up, delete "
            f"{object_store / _CLAIM} and run the same command again",
        )
    LOGGER.debug("outcomes and partial sums: %s", object_store)
