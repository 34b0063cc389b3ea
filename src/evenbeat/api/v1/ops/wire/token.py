"""Tokens as clients ask for them and see them."""

from datetime import datetime, timedelta
from typing import Annotated, Any, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from evenbeat.control.ops.tokens import TokenPage
from evenbeat.core.limits import LONGEST_TOKEN_NAME
from evenbeat.core.ops.access import LIFETIME, AccessToken, Role
from evenbeat.core.time.durations import parse_duration

DEFAULT_LIFETIME = "30d"


class TokenIn(BaseModel):
    """A new token."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"name": "deploy pipeline", "role": "operator", "expires": "90d"}]
        },
    )

    name: Annotated[str, Field(min_length=1, max_length=LONGEST_TOKEN_NAME, strict=True)]
    role: Role = Role.OPERATOR
    expires: Annotated[Any, WithJsonSchema({"type": ["string", "integer"]})] = Field(
        DEFAULT_LIFETIME, description="how long it is valid, as in 12h or 30d, or in seconds"
    )

    def lifetime(self) -> timedelta:
        return parse_duration(self.expires, "expires", LIFETIME)


class TokenOut(BaseModel):
    """What is stored of a token: never the token itself."""

    id: UUID
    name: str
    role: Role
    issued_at: datetime
    issued_by: str
    expires_at: datetime
    revoked_at: datetime | None
    revoked_by: str | None

    @classmethod
    def from_core(cls, stored: AccessToken, **more: Any) -> Self:
        return cls(
            id=stored.id,
            name=stored.name,
            role=stored.role,
            issued_at=stored.issued_at,
            issued_by=stored.issued_by,
            expires_at=stored.expires_at,
            revoked_at=stored.revoked_at,
            revoked_by=stored.revoked_by,
            **more,
        )


class NewTokenOut(TokenOut):
    """A token that has just been made, itself included: it is shown this once."""

    token: str


class TokensOut(BaseModel):
    """A page of tokens, newest first."""

    tokens: list[TokenOut]
    total: int
    limit: int
    offset: int

    @classmethod
    def from_core(cls, page: TokenPage, *, limit: int, offset: int) -> Self:
        tokens = [TokenOut.from_core(token) for token in page.tokens]
        return cls(tokens=tokens, total=page.total, limit=limit, offset=offset)
