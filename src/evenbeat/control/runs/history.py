"""The history of runs: of one job, of all jobs, and as an export."""

from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from uuid import UUID

from evenbeat.core.jobs.model import Run, RunState
from evenbeat.core.runs.run_export import EVERY_RUN, ExportedRun, RunFilter
from evenbeat.store.database.pool import Database
from evenbeat.store.jobs import jobs
from evenbeat.store.runs import runs
from evenbeat.store.runs.runs import ListedRun, StoredLogLine


@dataclass(frozen=True, slots=True)
class RunPage:
    """Some runs of a job, newest first, and how many there are in all."""

    runs: list[Run]
    total: int


@dataclass(frozen=True, slots=True)
class RecentRunPage:
    """Some runs, newest first; `older_than` asks for the next page, None is the last one."""

    runs: list[ListedRun]
    older_than: int | None


class History:
    """The runs of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_job(
        self,
        uid: UUID,
        *,
        limit: int = 50,
        offset: int = 0,
        with_skipped: bool = True,
        with_returned: bool = True,
    ) -> RunPage:
        """The runs of a job, which may be deleted: its history stays.

        `with_skipped` includes beats that were not run, `with_returned` runs that were handed back
        or snoozed.
        """
        job_id = await jobs.find_job_id(self._database, uid)
        kept = {"with_skipped": with_skipped, "with_returned": with_returned}
        found = await runs.list_runs(
            self._database, job_id, uid, limit=limit, offset=offset, **kept
        )
        total = await runs.count_runs(self._database, job_id, **kept)
        return RunPage(found, total)

    def export(self, chosen: RunFilter = EVERY_RUN) -> AsyncIterator[ExportedRun]:
        """Every run that matches, the oldest first, all from one snapshot of the database."""
        return runs.export_runs(self._database.url, self._database.clock, chosen)

    async def get(self, run_id: int) -> Run:
        """One run, ended or still running."""
        return await runs.find_run(self._database, run_id)

    async def newest(
        self,
        *,
        job: UUID | None = None,
        states: Collection[RunState] | None = None,
        older_than: int | None = None,
        limit: int = 50,
    ) -> RecentRunPage:
        """The newest runs of all jobs, or of one job, deleted or not."""
        job_id = None if job is None else await jobs.find_job_id(self._database, job)
        found = await runs.list_newest_runs(
            self._database, job_id=job_id, states=states, older_than=older_than, limit=limit + 1
        )
        shown = found[:limit]
        return RecentRunPage(shown, shown[-1].run.id if len(found) > limit else None)

    async def lines(self, run_id: int, *, after: int = 0, limit: int = 1000) -> list[StoredLogLine]:
        """The log lines of a run, in order; `after` is the last line that the caller has."""
        return await runs.list_log_lines(self._database, run_id, after=after, limit=limit)
