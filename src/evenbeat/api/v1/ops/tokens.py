"""The routes of /api/v1/tokens: the tokens we made, for administrators."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Response

from evenbeat.api.v1.ops.wire.token import NewTokenOut, TokenIn, TokenOut, TokensOut
from evenbeat.core.limits import LARGEST_OFFSET, LARGEST_PAGE
from evenbeat.core.ops.access import Role
from evenbeat.web.auth import Caller, needs
from evenbeat.web.probes import App

# No Idempotency-Key here: answers to such requests are stored, and this one contains the token.
router = APIRouter(prefix="/api/v1/tokens", tags=["tokens"], dependencies=[needs(Role.ADMIN)])


@router.post("", status_code=201)
async def create_token(body: TokenIn, app: App, caller: Caller, response: Response) -> NewTokenOut:
    """Make a token. It is in this answer, and nowhere else."""
    token, signed = await app.tokens.issue(
        name=body.name, role=body.role, lifetime=body.lifetime(), issued_by=caller.name
    )
    response.headers["Location"] = f"/api/v1/tokens/{token.id}"
    return NewTokenOut.from_core(token, token=signed)


@router.get("")
async def list_tokens(
    app: App,
    limit: Annotated[int, Query(ge=1, le=LARGEST_PAGE)] = 50,
    offset: Annotated[int, Query(ge=0, le=LARGEST_OFFSET)] = 0,
) -> TokensOut:
    """The tokens that were made here, newest first."""
    page = await app.tokens.page(limit=limit, offset=offset)
    return TokensOut.from_core(page, limit=limit, offset=offset)


@router.get("/{token_id}")
async def get_token(token_id: UUID, app: App) -> TokenOut:
    """What is known of a token."""
    return TokenOut.from_core(await app.tokens.get(token_id))


@router.delete("/{token_id}", status_code=204)
async def revoke_token(token_id: UUID, app: App, caller: Caller) -> None:
    """Revoke a token: within seconds every process refuses it."""
    await app.tokens.revoke(token_id, revoked_by=caller.name)
