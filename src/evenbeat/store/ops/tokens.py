"""Access tokens: stored, listed, revoked, removed."""

from datetime import timedelta
from uuid import UUID

import asyncpg

from evenbeat.core.errors import NotFound
from evenbeat.core.ops.access import AccessToken, Role
from evenbeat.store.database.pool import Session
from evenbeat.store.database.statements import load_statements

SQL = load_statements("ops/tokens")


async def insert_token(session: Session, token: AccessToken) -> None:
    await session.execute(
        SQL["insert"],
        id=token.id,
        name=token.name,
        role=token.role.value,
        issued_at=token.issued_at,
        expires_at=token.expires_at,
        issued_by=token.issued_by,
    )


async def find_token(session: Session, token_id: UUID) -> AccessToken:
    row = await session.fetch_row(SQL["by_id"], id=token_id)
    if row is None:
        raise NotFound(f"no token {token_id}")
    return token_from(row)


async def list_tokens(session: Session, *, limit: int, offset: int) -> list[AccessToken]:
    rows = await session.fetch(SQL["page"], limit=limit, offset=offset)
    return [token_from(row) for row in rows]


async def count_tokens(session: Session) -> int:
    return await session.fetch_value(SQL["count"])


async def revoke_token(session: Session, token_id: UUID, revoked_by: str) -> None:
    await session.execute(SQL["revoke"], id=token_id, revoked_by=revoked_by)


async def find_revoked_ids(session: Session) -> frozenset[UUID]:
    """The revoked tokens that have not expired."""
    return frozenset(row["id"] for row in await session.fetch(SQL["revoked"]))


async def remove_expired_tokens(session: Session, *, kept: timedelta, limit: int) -> int:
    """Remove some tokens that expired longer ago than `kept`; returns how many."""
    return await session.execute(SQL["expire"], kept_seconds=kept.total_seconds(), limit=limit)


def token_from(row: asyncpg.Record) -> AccessToken:
    return AccessToken(
        id=row["id"],
        name=row["name"],
        role=Role(row["role"]),
        issued_at=row["issued_at"],
        expires_at=row["expires_at"],
        issued_by=row["issued_by"],
        revoked_at=row["revoked_at"],
        revoked_by=row["revoked_by"],
    )
