"""Histories of months, written straight into the tables, and a janitor without pauses."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from evenbeat.config import Settings
from evenbeat.engine.ops.janitor import Janitor
from evenbeat.store.database.pool import Database
from evenbeat.store.ops import chores, nodes, retention
from tests.support.waiting import eventually

ONCE = {"once": "2030-01-01T12:00:00Z"}
HOURLY = {"every": "1h", "phase": "0s"}
DAY = timedelta(days=1)

JOB = """
    with born as (
        insert into evenbeat.job (
            uid, kind, payload, timetable, policy, labels, group_key, created_at, updated_at,
            deleted_at
        )
        values (
            gen_random_uuid(), $1, '{}', jsonb_build_object('schedule', $2::jsonb), '{}', '{}', $3,
            $4, $4, $6
        )
        returning id
    ),
    marked as (
        insert into evenbeat.unplaced (job_id) select born.id from born where $5::"char" = 's'
    )
    insert into evenbeat.pulse (id, lane_id, state, state_at, next_beat_at)
    select born.id, lane.id, $5::"char", $4,
        case when $5 = 's' then '2100-01-01Z'::timestamptz end
    from born, evenbeat.lane
    where lane.kind = $1
    returning id
"""
# Ids in the order of their starts, as claims assign them.
RUNS = """
    with given as (
        select *
        from unnest(
            $1::bigint[], $2::integer[], $3::timestamptz[], $4::"char"[], $5::text[]
        ) as given (job_id, number, started_at, state, error_class)
    ),
    numbered as materialized (
        select nextval('evenbeat.run_id') as id, ordered.*
        from (select * from given order by started_at, job_id, number) as ordered
    ),
    written as (
        insert into evenbeat.run (
            id, job_id, number, state, cause, attempt, started_at, finished_at, duration_ms,
            error_class, skipped_count, reason
        )
        select
            id, job_id, number, state, 'm', 1, started_at, started_at + interval '1 second', 1000,
            error_class, case when state = 'k' then 3 end, case when state = 'k' then 'late' end
        from numbered
        returning id, job_id, number, state
    ),
    counted as (
        update evenbeat.pulse
        set run_number = total.newest,
            completed_count = total.completed,
            failed_count = total.failed
        from (
            select job_id, max(number) as newest, count(*) filter (where state = 'c') as completed,
                count(*) filter (where state = 'f') as failed
            from written
            group by job_id
        ) as total
        where pulse.id = total.job_id
    )
    select id, job_id, number from written order by id
"""


@dataclass(frozen=True)
class Ran:
    """A run as a test writes it: `state` is c, f, l (lost), x or k."""

    job_id: int
    number: int
    started_at: datetime
    state: str = "c"


class RunHistory:
    """Writes jobs and runs of the past into a database."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def job(
        self,
        created_at: datetime,
        *,
        schedule: dict[str, str] = HOURLY,
        state: str = "s",
        kind: str = "echo",
        group: str | None = None,
        deleted_at: datetime | None = None,
    ) -> int:
        await nodes.open_lanes(self.database, [kind])
        given = (kind, schedule, group, created_at, state.encode(), deleted_at)
        return await self.value(JOB, *given)

    async def write(self, runs: Iterable[Ran]) -> dict[tuple[int, int], int]:
        """Write runs, given in any order; their ids by job and number."""
        given = list(runs)
        rows = await self.fetch(
            RUNS,
            [run.job_id for run in given],
            [run.number for run in given],
            [run.started_at for run in given],
            [{"l": "f"}.get(run.state, run.state).encode() for run in given],
            ["lost" if run.state == "l" else None for run in given],
        )
        return {(row["job_id"], row["number"]): row["id"] for row in rows}

    async def kept(self) -> set[tuple[int, int]]:
        rows = await self.fetch("select job_id, number from evenbeat.run")
        return {(row["job_id"], row["number"]) for row in rows}

    async def fetch(self, query: str, *values: Any) -> list[Any]:
        async with self.database.connection() as connection:
            return await connection.fetch(query, *values)

    async def value(self, query: str, *values: Any) -> Any:
        [[value]] = await self.fetch(query, *values)
        return value

    async def cursor(self, chore: str) -> int:
        return await self.value("select cursor from evenbeat.chore where name = $1", chore)


def janitor_of(database: Database, settings: Settings, **changes: Any) -> Janitor:
    """A janitor that makes no pauses between pieces."""
    return Janitor(database, settings.model_copy(update={"housekeeping_share": 1.0} | changes))


async def work(janitor: Janitor) -> None:
    """Work until no chore is due."""
    while await janitor.turn() == timedelta(0):
        continue


async def count(janitor: Janitor, database: Database) -> None:
    """Work until every run is counted. Transactions of other tests on this server may delay it."""

    async def is_counted() -> bool:
        await chores.make_all_due(database)
        await work(janitor)
        [counting] = [
            each for each in await chores.list_chores(database) if each.name == chores.COUNT
        ]
        return counting.cursor >= await retention.find_newest_run_id(database)

    await eventually(is_counted, "everything counted")


async def tidy(janitor: Janitor, database: Database) -> None:
    """Count all runs, then do two rounds: the runs of a job are removed after the job."""
    await count(janitor, database)
    for _ in range(2):
        await chores.make_all_due(database)
        await work(janitor)
