"""Every statement in the store is one that PostgreSQL accepts: a new file is tested as well."""

from pathlib import Path

import asyncpg
import pytest

from evenbeat import store
from evenbeat.store.database.pool import Database
from evenbeat.store.database.statements import CLOCKS, Statement, load_statements

FOLDER = Path(store.__file__).parent
FILES = sorted(
    str(path.relative_to(FOLDER).with_suffix(""))
    for path in FOLDER.rglob("*.sql")
    if "schema" not in path.parts
)
STATEMENTS = [
    pytest.param(statement, id=f"{file}.{name}")
    for file in FILES
    for name, statement in load_statements(file).items()
]


@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize("statement", STATEMENTS)
async def test_a_statement_is_accepted_with_its_parameters(
    database: Database, statement: Statement, clock: str
) -> None:
    async with database.connection() as connection:
        prepared = await connection.prepare(statement.text(clock))
        assert len(prepared.get_parameters()) == len(statement.parameters)


@pytest.mark.parametrize("file", FILES)
def test_no_name_is_given_twice_in_a_file(file: str) -> None:
    text = (FOLDER / f"{file}.sql").read_text(encoding="utf-8")
    assert text.count("-- name: ") == len(load_statements(file))


async def test_a_statement_that_does_not_exist_is_refused(database: Database) -> None:
    async with database.connection() as connection:
        with pytest.raises(asyncpg.UndefinedTableError):
            await connection.prepare("select evenbeat.nowhere.id from evenbeat.nowhere")
