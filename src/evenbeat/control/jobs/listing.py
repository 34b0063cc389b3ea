"""Lists of jobs, and how many there are of each status."""

from dataclasses import dataclass

from evenbeat.core.jobs.filters import Filter
from evenbeat.core.jobs.model import Job, State
from evenbeat.store.database.pool import Database
from evenbeat.store.jobs import listing

NEWEST_FIRST = "created_at_desc"
ORDERS = tuple(listing.PAGES)


@dataclass(frozen=True, slots=True)
class JobPage:
    """Some of the jobs that match, and how many do; `older_than` asks for the next page."""

    jobs: list[Job]
    total: int
    older_than: int | None


class Listing:
    """Lists the jobs of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(
        self,
        chosen: Filter,
        *,
        order: str = NEWEST_FIRST,
        limit: int = 50,
        offset: int = 0,
        older_than: int | None = None,
    ) -> JobPage:
        """One page; `order` is one of ORDERS, and `older_than` goes with the newest first only."""
        found = await listing.list_jobs(
            self._database, chosen, order=order, limit=limit + 1, offset=offset, before=older_than
        )
        total = await listing.count_jobs(self._database, chosen)
        shown = found[:limit]
        return JobPage(shown, total, shown[-1].id if len(found) > limit else None)

    async def status_counts(self) -> dict[State, int]:
        """How many jobs there are of each status."""
        return await listing.count_by_status(self._database)
