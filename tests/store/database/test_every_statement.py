"""Every statement in the store is one that PostgreSQL accepts: a new file is tested as well."""

import re
from pathlib import Path

import asyncpg
import pytest

from evenbeat import store
from evenbeat.store.database.pool import Database
from evenbeat.store.database.statements import (
    CLOCKS,
    SHARED,
    Statement,
    load_statements,
    read_sql_file,
    split_sections,
)

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


@pytest.mark.parametrize("name", split_sections(read_sql_file(SHARED))[1])
def test_a_shared_fragment_is_used_and_defined_in_no_other_file(name: str) -> None:
    texts = {file: read_sql_file(file) for file in FILES}
    defining = [file for file, text in texts.items() if f"-- fragment: {name}\n" in text]
    assert defining == [SHARED]
    assert any(re.search(rf":{name}\b", text) for text in texts.values())


async def test_a_statement_that_does_not_exist_is_refused(database: Database) -> None:
    async with database.connection() as connection:
        with pytest.raises(asyncpg.UndefinedTableError):
            await connection.prepare("select evenbeat.nowhere.id from evenbeat.nowhere")
