"""Templates: kept by name."""

import asyncpg

from evenbeat.core.errors import NotFound
from evenbeat.core.templates import Template
from evenbeat.store.database import Session
from evenbeat.store.statements import load

SQL = load("templates")
MOST = 1000


async def put(session: Session, template: Template) -> Template:
    row = await session.fetch_row(
        SQL["put"],
        name=template.name,
        description=template.description,
        job=template.job,
        parameters=template.parameters,
    )
    if row is None:
        raise AssertionError("an upsert always gives its row back")
    return template_from(row)


async def by_name(session: Session, name: str) -> Template:
    row = await session.fetch_row(SQL["by_name"], name=name)
    if row is None:
        raise NotFound(f"no template {name!r}")
    return template_from(row)


async def all_of_them(session: Session) -> list[Template]:
    return [template_from(row) for row in await session.fetch(SQL["all"], limit=MOST)]


async def delete(session: Session, name: str) -> None:
    if not await session.execute(SQL["delete"], name=name):
        raise NotFound(f"no template {name!r}")


def template_from(row: asyncpg.Record) -> Template:
    return Template(
        name=row["name"],
        job=row["job"],
        parameters=row["parameters"],
        description=row["description"],
        version=row["version"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )
