"""One rule of resuming: find the finished result of this request, continue, or refuse another's."""

from __future__ import annotations

from primo_scale.errors import InputError
from primo_scale.storage.locations import Location

REPEAT = "Repeat the earlier command unchanged, or use another --work-dir"
NEVER_OVERWRITTEN = "Choose another --out; a release is never overwritten"


def is_of_this_request(
    where: Location | str, found: object, wanted: object, *, remedy: str = REPEAT
) -> bool:
    """Return whether something is stored for this request, and refuse that of another.

    `found` identifies the request of what is stored at `where`, or is None where nothing is, so
    that the stage begins.
    """
    if found is not None and found != wanted:
        raise of_other_request(where, remedy=remedy)
    return found is not None


def of_other_request(
    where: Location | str, *, value: object = None, remedy: str = REPEAT
) -> InputError:
    """Return the refusal of something that was stored for another request.

    `value` says what differs.
    """
    return InputError(
        "is not the result of this request", where=str(where), value=value, remedy=remedy
    )
