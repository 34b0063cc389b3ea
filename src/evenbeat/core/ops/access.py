"""Access: the roles of callers, and the tokens that we made for them."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from evenbeat.core.errors import InvalidInput
from evenbeat.core.limits import LONGEST_DURATION, LONGEST_TOKEN_NAME
from evenbeat.core.time.durations import DurationLimits

LIFETIME = DurationLimits(shortest=timedelta(seconds=1), longest=LONGEST_DURATION)


class Role(StrEnum):
    """What a person may do: look, operate, or everything."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    def covers(self, needed: "Role") -> bool:
        order = list(Role)
        return order.index(self) >= order.index(needed)


@dataclass(frozen=True, slots=True)
class AccessToken:
    """What is kept of a token that we made. The token itself is not kept: a lost one is replaced.

    `id` is the claim `jti`, by which it is revoked.
    """

    id: UUID
    name: str
    role: Role
    issued_at: datetime
    expires_at: datetime
    issued_by: str
    revoked_at: datetime | None = None
    revoked_by: str | None = None


def is_valid_name(text: str) -> bool:
    """The name, if logs and tables can show it: of bounded length, without control characters."""
    return 0 < len(text) <= LONGEST_TOKEN_NAME and text.isprintable() and bool(text.strip())


def check_name(text: str, field: str = "name") -> None:
    if not is_valid_name(text):
        raise InvalidInput(field, f"must have 1 to {LONGEST_TOKEN_NAME} printable characters")
