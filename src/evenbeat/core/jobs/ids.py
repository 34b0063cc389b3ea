"""The ids that clients see: a UUID that is a run's number in disguise, and ids as texts."""

from uuid import UUID

from evenbeat.core.errors import NotFound

# Version 8 is for UUIDs of one's own making. The rest of the mark tells ours from those of others.
RUN_MARK = 0x65626561_7400_8000_8000_000000000000
RUN_BITS = 48


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
