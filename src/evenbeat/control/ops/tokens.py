"""Tokens as people handle them: make one, list them, revoke one."""

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from evenbeat.config import Settings
from evenbeat.control.ops import token_signing
from evenbeat.core.ops.access import AccessToken, Role
from evenbeat.store.database.pool import Database
from evenbeat.store.ops import tokens

# How late a process may hear that another one has revoked a token.
REVOKED_WITHIN = 3.0


@dataclass(frozen=True, slots=True)
class TokenPage:
    """Some tokens, newest first, and how many there are in all."""

    tokens: list[AccessToken]
    total: int


class Tokens:
    """The tokens that were made on one database."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        *,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._settings = settings
        self._elapsed = elapsed
        self._revoked = frozenset[UUID]()
        self._heard_at = -math.inf
        self._hearing = asyncio.Lock()

    async def issue(
        self, *, name: str, role: Role, lifetime: timedelta, issued_by: str
    ) -> tuple[AccessToken, str]:
        """A new token, on record before anybody has it. It is shown this once."""
        token = token_signing.draft(name=name, role=role, lifetime=lifetime, issued_by=issued_by)
        signed = token_signing.sign(self._settings, token)
        await tokens.insert_token(self._database, token)
        return token, signed

    async def get(self, token_id: UUID) -> AccessToken:
        return await tokens.find_token(self._database, token_id)

    async def page(self, *, limit: int = 50, offset: int = 0) -> TokenPage:
        return TokenPage(
            await tokens.list_tokens(self._database, limit=limit, offset=offset),
            await tokens.count_tokens(self._database),
        )

    async def revoke(self, token_id: UUID, *, revoked_by: str) -> AccessToken:
        """No good any more: at once in this process, within seconds in the others."""
        await tokens.revoke_token(self._database, token_id, revoked_by)
        async with self._hearing:
            await self._hear()
        return await self.get(token_id)

    async def is_revoked(self, token_id: UUID) -> bool:
        """Whether a token that is good in itself has been revoked.

        Without the database nobody can say, and the error of that is the answer.
        """
        if self._is_out_of_date():
            async with self._hearing:
                # Whoever had the lock before us has just asked.
                if self._is_out_of_date():
                    await self._hear()
        return token_id in self._revoked

    def _is_out_of_date(self) -> bool:
        return self._elapsed() - self._heard_at > REVOKED_WITHIN

    async def _hear(self) -> None:
        asked_at = self._elapsed()
        self._revoked = await tokens.find_revoked_ids(self._database)
        self._heard_at = asked_at
