"""Definitions, and everything that is in the tables."""

from typing import Any

from evenbeat.core.jobs.model import Definition, Policy
from evenbeat.core.time.schedules import parse_schedule
from evenbeat.core.time.timetable import Timetable
from evenbeat.store.database.pool import Database

TABLES = """
    select relname from pg_class
    where relnamespace = to_regnamespace('evenbeat') and relkind = 'r' order by relname
"""


def definition(schedule: str = "now", *, kind: str = "work", **more: Any) -> Definition:
    policy = Policy(**more.pop("policy", {}))
    return Definition(kind, Timetable(parse_schedule(schedule)), policy=policy, **more)


async def fetch(database: Database, query: str, *values: Any) -> list[Any]:
    async with database.connection() as connection:
        return await connection.fetch(query, *values)


async def value(database: Database, query: str, *values: Any) -> Any:
    [[found]] = await fetch(database, query, *values)
    return found


async def counts(database: Database) -> dict[str, int]:
    """How many rows every table of ours has."""
    tables = [row["relname"] for row in await fetch(database, TABLES)]
    return {
        table: await value(database, f"select count(*) from evenbeat.{table}") for table in tables
    }


async def rows_of(database: Database, uid: Any) -> dict[str, Any]:
    """Everything that is stored of a job, in both of its tables."""
    query = """
        select to_jsonb(job) - 'id' - 'uid' as job, to_jsonb(pulse) - 'id' as pulse
        from evenbeat.job join evenbeat.pulse on pulse.id = job.id where job.uid = $1
    """
    [row] = await fetch(database, query, uid)
    return {
        f"{table}.{column}": stored
        for table, columns in row.items()
        for column, stored in columns.items()
    }
