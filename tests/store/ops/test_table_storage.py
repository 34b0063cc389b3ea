"""How our tables are stored and vacuumed: as we want it after a migration, told where it is not."""

from typing import Any

import pytest

from evenbeat.control.ops.housekeeping import Housekeeping
from evenbeat.store.database.pool import Database
from evenbeat.store.ops.table_storage import WANTED_SETTINGS


async def of_tables(database: Database) -> list[str]:
    return [str(each) for each in await Housekeeping(database).drift() if "server" not in each.what]


async def execute(database: Database, text: str) -> None:
    async with database.connection() as connection:
        await connection.execute(text)


async def test_migrations_leave_every_table_as_it_is_wanted(database: Database) -> None:
    assert await of_tables(database) == []


async def test_nothing_is_set_that_nobody_wants(database: Database) -> None:
    query = "select relname, unnest(reloptions) as option from pg_class where relkind = 'r'"
    async with database.connection() as connection:
        rows: list[Any] = await connection.fetch(
            f"{query} and relnamespace = 'evenbeat'::regnamespace"
        )
    found = {(row["relname"], *row["option"].split("=")) for row in rows}
    wanted = {
        (table, *each) for table, options in WANTED_SETTINGS.items() for each in options.items()
    }
    assert found == wanted


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        ("reset (autovacuum_vacuum_scale_factor)", "not set"),
        ("set (autovacuum_vacuum_scale_factor = 0.5)", "0.5"),
    ],
)
async def test_drift_is_told_with_what_mends_it(
    database: Database, damage: str, found: str
) -> None:
    await execute(database, f"alter table evenbeat.pulse {damage}")
    mend = "alter table evenbeat.pulse set (autovacuum_vacuum_scale_factor = 0.02)"
    try:
        what = "autovacuum_vacuum_scale_factor of evenbeat.pulse"
        assert await of_tables(database) == [f"{what} is {found}, not 0.02: {mend}"]
    finally:
        await execute(database, mend)
    assert await of_tables(database) == []


async def test_a_server_that_does_not_vacuum_is_told(database: Database) -> None:
    """The server of these tests is one."""
    told = [str(each) for each in await Housekeeping(database).drift()]
    assert told == [
        "autovacuum of the server is off, not on: "
        "alter system set autovacuum = on; then reload the server"
    ]
