"""New ids of jobs, with the random bits that `core` cannot draw itself."""

import secrets
from datetime import datetime
from uuid import UUID

from evenbeat.core.jobs.ids import RANDOM_BYTES, build_job_uids


def new_job_uid(now: datetime) -> UUID:
    [uid] = new_job_uids(now, 1)
    return uid


def new_job_uids(now: datetime, count: int) -> list[UUID]:
    """So many of them, in their order."""
    # Drawn at once: drawing for each id takes longer than all the rest.
    return build_job_uids(now, secrets.token_bytes(RANDOM_BYTES * count))
