"""What a shell offers while somebody types the name of a job."""

import asyncio

from evenbeat.app import Evenbeat
from evenbeat.config import load
from evenbeat.core.errors import EvenbeatError
from evenbeat.core.jobs.filters import Filter
from evenbeat.store.database.connection_errors import translate_privilege_errors

MOST_OFFERED = 50


def complete_jobs(incomplete: str) -> list[str]:
    """Names that begin so; nothing where no database runs, since none is started for this."""
    try:
        with translate_privilege_errors():
            return asyncio.run(names_like(incomplete))
    except EvenbeatError:
        # Somebody is typing: the command itself will say what is wrong.
        return []


async def names_like(beginning: str) -> list[str]:
    eb = Evenbeat(load())
    if not eb.has_database():
        return []
    async with eb:
        page = await eb.listing.page(
            Filter(search=beginning or None), order="name_asc", limit=MOST_OFFERED
        )
    names = [job.definition.name for job in page.jobs]
    return [name for name in names if name is not None and name.startswith(beginning)]
