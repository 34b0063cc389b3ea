"""Templates: kept by name."""

from typing import Any

import asyncpg

from evenbeat.core.errors import NotFound
from evenbeat.core.jobs.templates import Template
from evenbeat.store.database.pool import Session
from evenbeat.store.database.statements import load

SQL = load("jobs/templates")
MOST = 1000


async def make(session: Session, template: Template) -> Template | None:
    """None: there is one of this name."""
    row = await session.fetch_row(SQL["make"], **written(template))
    return template_from(row) if row else None


async def locked(session: Session, name: str) -> Template:
    """As it is, and stays until the end of the transaction."""
    return found(await session.fetch_row(SQL["lock"], name=name), name)


async def change(session: Session, template: Template) -> Template:
    """Make the one of this name, which is locked, like this."""
    return found(await session.fetch_row(SQL["change"], **written(template)), template.name)


async def by_name(session: Session, name: str) -> Template:
    return found(await session.fetch_row(SQL["by_name"], name=name), name)


async def all_of_them(session: Session) -> list[Template]:
    return [template_from(row) for row in await session.fetch(SQL["all"], limit=MOST)]


async def delete(session: Session, name: str) -> Template:
    """As it was."""
    return found(await session.fetch_row(SQL["delete"], name=name), name)


def written(template: Template) -> dict[str, Any]:
    return {
        "name": template.name,
        "description": template.description,
        "job": template.job,
        "parameters": template.parameters,
    }


def found(row: asyncpg.Record | None, name: str) -> Template:
    if row is None:
        raise NotFound(f"no template {name!r}")
    return template_from(row)


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
