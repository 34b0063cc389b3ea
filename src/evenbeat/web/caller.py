"""The caller of a request, as sign-in found them."""

from dataclasses import dataclass, field
from uuid import UUID

from evenbeat.core.errors import NotPermitted
from evenbeat.core.ops.access import Role
from evenbeat.core.ops.audit import Actor


@dataclass(frozen=True, slots=True)
class ApiCaller:
    """Who sent a request: for what they may do, and for the audit of what they did."""

    name: str
    role: Role
    token_id: UUID | None = None
    request_id: str = ""
    # As the audit names them.
    actor: Actor = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "actor", Actor(self.name, self.request_id or None))

    def check(self, needed: Role) -> None:
        """Raise NotPermitted unless the caller's role is this one or a higher one."""
        if not self.role.covers(needed):
            raise NotPermitted(f"this needs the role {needed}, and {self.name} is {self.role}")
