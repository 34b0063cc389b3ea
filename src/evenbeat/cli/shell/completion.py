"""Shell completion of job names."""

import asyncio

from evenbeat.app import Evenbeat
from evenbeat.config import load
from evenbeat.core.errors import EvenbeatError
from evenbeat.core.jobs.filters import Filter
from evenbeat.store.database.connection_errors import translate_privilege_errors

MOST_OFFERED = 50


def complete_jobs(incomplete: str) -> list[str]:
    """Job names with this beginning; none without a running database, which is not started here."""
    try:
        with translate_privilege_errors():
            return asyncio.run(find_names(incomplete))
    except EvenbeatError:
        # An error would disturb the user's typing: the command itself will report it.
        return []


async def find_names(beginning: str) -> list[str]:
    eb = Evenbeat(load())
    if not eb.has_database():
        return []
    async with eb:
        page = await eb.listing.page(
            Filter(search=beginning or None), order="name_asc", limit=MOST_OFFERED
        )
    names = [job.definition.name for job in page.jobs]
    return [name for name in names if name is not None and name.startswith(beginning)]
