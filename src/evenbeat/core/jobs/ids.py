"""The ids that clients see: UUIDv7 for jobs, and a UUID that is a run's number in disguise."""

from datetime import datetime
from uuid import UUID

from evenbeat.core.errors import NotFound

# Version 8 is for UUIDs of one's own making. The rest of the mark tells ours from those of others.
RUN_MARK = 0x65626561_7400_8000_8000_000000000000
RUN_BITS = 48
# The random bits of a UUIDv7: twelve after the version, 62 after the variant.
FREE_BITS = (0xFFF << 64) | ((1 << 62) - 1)
RANDOM_BYTES = 10


def build_job_uids(now: datetime, random_bytes: bytes) -> list[UUID]:
    """One for every ten random bytes, in their order.

    They sort by the time at which they were made: the rows of new jobs then lie side by side in
    the index.
    """
    milliseconds = int(now.timestamp() * 1000)
    base = (milliseconds << 80) | (7 << 76) | (0b10 << 62)
    starts = range(0, len(random_bytes), RANDOM_BYTES)
    chances = (int.from_bytes(random_bytes[at : at + RANDOM_BYTES]) for at in starts)
    values = sorted(base | (chance & FREE_BITS) for chance in chances)
    return [UUID(int=value) for value in values]


def run_uid(run_id: int) -> UUID:
    return UUID(int=RUN_MARK | run_id)


def run_id(uid: UUID) -> int:
    """The inverse of `run_uid`. NotFound for any other UUID: it is no run of ours."""
    if uid.int >> RUN_BITS != RUN_MARK >> RUN_BITS:
        raise NotFound(f"no run {uid}")
    return uid.int & ((1 << RUN_BITS) - 1)


def read_uid(text: object) -> UUID | None:
    """The UUID, if the text is one in the form that we write; None for any other text."""
    try:
        uid = UUID(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return uid if uid is not None and str(uid) == text else None
