"""Tokens: issue one, list them, revoke one."""

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

# How long a process may take to notice that another one has revoked a token, in seconds.
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
        self._refreshed_at = -math.inf
        self._refreshing = asyncio.Lock()

    async def issue(
        self, *, name: str, role: Role, lifetime: timedelta, issued_by: str
    ) -> tuple[AccessToken, str]:
        """A new token, stored before it is returned. The signed text is shown only this once."""
        token = token_signing.draft_token(
            name=name, role=role, lifetime=lifetime, issued_by=issued_by
        )
        signed = token_signing.sign_token(self._settings, token)
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
        """Make the token invalid: at once in this process, within seconds in the others."""
        await tokens.revoke_token(self._database, token_id, revoked_by)
        async with self._refreshing:
            await self._refresh()
        return await self.get(token_id)

    async def is_revoked(self, token_id: UUID) -> bool:
        """Whether a token that is otherwise valid has been revoked.

        Raises StoreUnavailable while the database cannot be asked.
        """
        if self._is_out_of_date():
            async with self._refreshing:
                # Another caller may have read the list while this one waited for the lock.
                if self._is_out_of_date():
                    await self._refresh()
        return token_id in self._revoked

    def _is_out_of_date(self) -> bool:
        return self._elapsed() - self._refreshed_at > REVOKED_WITHIN

    async def _refresh(self) -> None:
        asked_at = self._elapsed()
        self._revoked = await tokens.find_revoked_ids(self._database)
        self._refreshed_at = asked_at
