"""Where a run keeps its stores: the work directory, or a bucket for the large ones."""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from primo_scale.errors import InputError
from primo_scale.run.run_log import LOGGER
from primo_scale.storage.documents import read_document
from primo_scale.storage.files import canonical_json, write_atomically
from primo_scale.storage.locations import Location, ObjectUrl, parse_location

if TYPE_CHECKING:
    from primo_scale.storage.base_store import BaseStore

STORE, OUTCOMES, PARTIALS = "genotypes.zarr", "outcomes.zarr", "partials.zarr"
STATISTICS, NOISE = "statistics.zarr", "private_statistics"
CLAIMS = "object_store.claim"
DESIGN, LOCK = "design.json", "lock"
"""Names in the work directory."""
_CLAIM = "claim"  # in a bucket


@dataclass(frozen=True)
class WorkPlaces:
    """The stores whose sizes grow with the cohort; all else of a run stays in the work directory.

    What says which noise was paid for stays there as well, with that noise: it has to be durable
    before anything is drawn, and under the work directory's lock.

    Attributes
    ----------
    genotypes
        The store of ``gwas_release``.
    outcomes
        Lattice rows.
    partials
        Committed results of tasks.
    statistics
        Their exact sums, which workers do not touch.
    """

    genotypes: Location
    outcomes: Location
    partials: Location
    statistics: Location


def work_places(work_dir: Path, object_store: ObjectUrl | None) -> WorkPlaces:
    """The places of a run; ``--object-store`` is for workers that do not see the work directory."""
    where: Location = work_dir if object_store is None else object_store
    return WorkPlaces(where / STORE, where / OUTCOMES, where / PARTIALS, where / STATISTICS)


def other_statistics(statistics: Location) -> InputError:
    """Return the refusal of finished statistics that are not those asked for."""
    return InputError(
        "there are statistics of other inputs or options",
        where=str(statistics),
        remedy="Use another --work-dir, and another --object-store if there is one",
    )


@dataclass(frozen=True)
class _Claims:
    """What a work directory has claimed.

    Attributes
    ----------
    name
        Random name of the work directory, which stands in every prefix that it uses.
    urls
        Prefixes that it uses or was refused, the last one at the end.
    """

    name: str
    urls: tuple[str, ...]

    @classmethod
    def of(cls, work_dir: Path) -> _Claims | None:
        """Those on record, or None where no object store was ever asked for."""
        path = work_dir / CLAIMS
        if not path.is_file():
            return None
        return read_document(
            path,
            lambda stored: msgspec.convert(stored, cls),
            remedy="Use another --work-dir, and empty the prefix of the object store by hand",
        )


def finished_statistics(work_dir: Path, object_store: str | None) -> Location:
    """Where `accumulate` left the statistics, in a bucket only while the prefix is claimed.

    Parameters
    ----------
    work_dir
        Locked by this run.
    object_store
        Prefix of the object store in the design, or None.

    Raises
    ------
    InputError
        The claim fails as in `claim`.
    """
    if object_store is None:
        return work_dir / STATISTICS
    claim(parse_location(object_store), work_dir)
    return parse_location(object_store) / STATISTICS


def claim(object_store: Location, work_dir: Path) -> None:
    """Let one work directory use a prefix: its lock then keeps two runs apart there as well.

    The first run writes the name of its work directory, drawn at random, by conditional put. The
    work directory has the prefix on record before anything is in it, so that a purge finds it.

    What sums lie there are then this work directory's own. Of others they may be of a subsample
    that has served a release, and only the other work directory has that on record.

    Raises
    ------
    InputError
        Another work directory uses the prefix, or left sums there; or the service knows no
        conditional put.
    """
    from primo_scale.storage.base_store import no_conditional_put
    from primo_scale.storage.stores import store_at

    before = _Claims.of(work_dir) or _Claims(secrets.token_hex(16), ())
    others = (url for url in before.urls if url != str(object_store))
    claims = _Claims(before.name, (*others, str(object_store)))
    if claims != before:
        write_atomically(work_dir / CLAIMS, canonical_json(asdict(claims)))
    name, store = claims.name.encode(), store_at(object_store)
    if not store.holds(_CLAIM):
        _refuse_unclaimed_sums(object_store, store)
    if store.put_if_absent(_CLAIM, name):
        # Some services take the condition and ignore it: then this does not fail, as it must.
        if store.put_if_absent(_CLAIM, name):
            raise no_conditional_put(object_store)
    elif store.read(_CLAIM) != name:
        raise InputError(
            "another work directory keeps its sums there",
            where=str(object_store),
            remedy="Choose another --object-store; or, if that run is given up, delete "
            f"{PARTIALS}, {STATISTICS} and then {_CLAIM} there",
        )
    LOGGER.debug("outcomes and sums: %s", object_store)


def _refuse_unclaimed_sums(object_store: Location, store: BaseStore) -> None:
    from primo_scale.storage.base_store import HEADER

    sums = [name for name in (PARTIALS, STATISTICS) if store.holds(f"{name}/{HEADER}")]
    if sums:
        raise InputError(
            "the sums there are of a work directory whose claim on them is gone",
            where=str(object_store),
            remedy=f"Choose another --object-store, or delete {' and '.join(sums)} there",
        )


def last_claimed(work_dir: Path) -> str | None:
    """The prefix that a work directory used last, or None; asks no service."""
    claims = _Claims.of(work_dir)
    return None if claims is None else claims.urls[-1]


def empty_claimed(work_dir: Path, *, genotypes: bool) -> None:
    """Delete what this work directory's runs keep in buckets, and last its claim on each prefix.

    What a user keeps below the same prefix stays, and so does what another work directory claims.

    Parameters
    ----------
    work_dir
        Locked by this run.
    genotypes
        Whether copied genotypes are to go too.
    """
    from primo_scale.storage.stores import store_at

    claims = _Claims.of(work_dir)
    if claims is None:
        return
    for url in claims.urls:
        store = store_at(parse_location(url))
        if not store.holds(_CLAIM) or store.read(_CLAIM) != claims.name.encode():
            continue  # another's, or emptied by a run that was interrupted afterwards
        for name in (PARTIALS, STATISTICS, OUTCOMES, *((STORE,) if genotypes else ())):
            store.remove_below(name)
        store.remove(_CLAIM)
        left = sorted({key.partition("/")[0] for key in store.all_keys()})
        LOGGER.info("purged %s%s", url, f"; left there: {', '.join(left)}" if left else "")
