"""The ids that clients see: UUIDv7 for jobs, and a UUID that is a run's number in disguise."""

import secrets
from datetime import datetime
from uuid import UUID

from evenbeat.core.errors import NotFound

# Version 8 is for UUIDs of one's own making; the rest of the mark keeps ours apart from others'.
RUN_MARK = 0x65626561_7400_8000_8000_000000000000
RUN_BITS = 48
# What a UUIDv7 leaves to chance: twelve bits behind the version, 62 behind the variant.
FREE_BITS = (0xFFF << 64) | ((1 << 62) - 1)


def new_job_uid(now: datetime) -> UUID:
    """Sorts by time of birth, so that new rows land side by side in the index."""
    [uid] = new_job_uids(now, 1)
    return uid


def new_job_uids(now: datetime, count: int) -> list[UUID]:
    """So many of them, in their order."""
    milliseconds = int(now.timestamp() * 1000)
    base = (milliseconds << 80) | (7 << 76) | (0b10 << 62)
    # All the randomness at once: asked for one by one, it takes longer than the rest.
    dice = secrets.token_bytes(10 * count)
    rolls = (int.from_bytes(dice[at : at + 10]) for at in range(0, 10 * count, 10))
    values = sorted(base | (roll & FREE_BITS) for roll in rolls)
    return [UUID(int=value) for value in values]


def run_uid(run_id: int) -> UUID:
    return UUID(int=RUN_MARK | run_id)


def run_id(uid: UUID) -> int:
    """The run that `run_uid` named so; any other UUID is no run of ours."""
    if uid.int >> RUN_BITS != RUN_MARK >> RUN_BITS:
        raise NotFound(f"no run {uid}")
    return uid.int & ((1 << RUN_BITS) - 1)


def read_uid(text: object) -> UUID | None:
    """A UUID as we write them; what others call their things is no concern of ours."""
    try:
        uid = UUID(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return uid if uid is not None and str(uid) == text else None
