"""Sign-in: who asks, and what they may do."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request

from evenbeat.config import Settings
from evenbeat.core.errors import NotPermitted, NotSignedIn
from evenbeat.web.tokens import Role, read_token, secret_of


@dataclass(frozen=True, slots=True)
class Person:
    """Whoever asks."""

    name: str
    role: Role


class Gate:
    """Lets people in who bring a good token."""

    def __init__(self, settings: Settings) -> None:
        self._is_open = settings.auth == "off"
        self._secret = "" if self._is_open else secret_of(settings)

    def admit(self, authorization: str | None) -> Person:
        if self._is_open:
            return Person("anyone", Role.ADMIN)
        scheme, _, token = (authorization or "").partition(" ")
        if not token:
            raise NotSignedIn("missing authorization")
        if scheme.lower() != "bearer":
            raise NotSignedIn("invalid token")
        return person_of(read_token(token, self._secret))


def person_of(claims: dict[str, Any]) -> Person:
    # Tokens made for the interval scheduler carry no role; their bearers could do everything
    # but administrate.
    try:
        role = Role(claims.get("role", Role.OPERATOR))
    except ValueError:
        raise NotSignedIn("invalid token") from None
    return Person(str(claims.get("sub", "unknown")), role)


def signed_in(request: Request) -> Person:
    gate: Gate = request.app.state.gate
    return gate.admit(request.headers.get("authorization"))


def needs(role: Role) -> Any:
    """A dependency for routes: whoever asks must have this role or a higher one."""

    def check(person: Annotated[Person, Depends(signed_in)]) -> Person:
        if not person.role.covers(role):
            raise NotPermitted(f"this needs the role {role}, and {person.name} is {person.role}")
        return person

    return Depends(check)
