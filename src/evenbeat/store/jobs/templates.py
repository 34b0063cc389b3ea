"""Reads and writes templates, by name."""

from typing import Any

import asyncpg

from evenbeat.core.errors import NotFound
from evenbeat.core.jobs.templates import Template
from evenbeat.store.database.pool import Session
from evenbeat.store.database.statements import load_statements

SQL = load_statements("jobs/templates")
MOST_TEMPLATES = 1000


async def insert_template(session: Session, template: Template) -> Template | None:
    """None: there is a template of this name already."""
    row = await session.fetch_row(SQL["make"], **template_columns(template))
    return template_from(row) if row else None


async def lock_template(session: Session, name: str) -> Template:
    """Read the template and lock it until the end of the transaction."""
    return require_template(await session.fetch_row(SQL["lock"], name=name), name)


async def update_template(session: Session, template: Template) -> Template:
    """Change the locked template of this name."""
    return require_template(
        await session.fetch_row(SQL["change"], **template_columns(template)), template.name
    )


async def find_template(session: Session, name: str) -> Template:
    return require_template(await session.fetch_row(SQL["by_name"], name=name), name)


async def list_templates(session: Session) -> list[Template]:
    return [
        template_from(row)
        for row in await session.fetch(SQL["list_templates"], limit=MOST_TEMPLATES)
    ]


async def delete_template(session: Session, name: str) -> Template:
    """The template that was deleted."""
    return require_template(await session.fetch_row(SQL["delete"], name=name), name)


def template_columns(template: Template) -> dict[str, Any]:
    return {
        "name": template.name,
        "description": template.description,
        "job": template.job,
        "parameters": template.parameters,
    }


def require_template(row: asyncpg.Record | None, name: str) -> Template:
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
