"""Whoever asks: what sign-in found out about them."""

from dataclasses import dataclass
from uuid import UUID

from evenbeat.core.access import Role


@dataclass(frozen=True, slots=True)
class Person:
    """Whoever asks: for what they may do, and for the record of what they did."""

    name: str
    role: Role
    token_id: UUID | None = None
    request_id: str = ""
