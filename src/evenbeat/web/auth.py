"""Sign-in: who asks, and what they may do."""

from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import Depends, Request

from evenbeat.app import Evenbeat
from evenbeat.config import is_loopback
from evenbeat.core.errors import NotPermitted, NotSignedIn
from evenbeat.core.ops.access import Role
from evenbeat.web.caller import ApiCaller
from evenbeat.web.middleware import request_id_of
from evenbeat.web.rate_limits import RateLimiter, network_of_address
from evenbeat.web.token_checks import TokenReader

# Of good tokens there are many requests, of bad ones a person makes a few.
FAILED_SIGN_IN_SHARE = 0.1


class Authenticator:
    """Lets people in who bring a good token, as often as they may come."""

    def __init__(self, app: Evenbeat) -> None:
        settings = app.settings
        self._app = app
        self._reader = None if settings.auth == "off" else TokenReader(settings)
        rate = settings.rate_limit
        self._callers = RateLimiter(rate) if rate else None
        self._strangers = (
            RateLimiter(rate * FAILED_SIGN_IN_SHARE, "failed sign-ins") if rate else None
        )

    async def admit(self, request: Request) -> ApiCaller:
        try:
            person = await self._identify(request)
        except NotSignedIn:
            self._count_stranger(request)
            raise
        if self._callers is not None:
            request.state.allowance = self._callers.take(f"{person.token_id or ''}:{person.name}")
        return ApiCaller(person.name, person.role, person.token_id, request_id_of(request))

    async def _identify(self, request: Request) -> ApiCaller:
        if self._reader is None:
            refuse_other_sites(request)
            return ApiCaller("anyone", Role.ADMIN)
        person = await self._reader.read(read_bearer_token(request))
        if person.token_id is not None and await self._app.tokens.is_revoked(person.token_id):
            raise NotSignedIn("invalid token")
        return person

    def _count_stranger(self, request: Request) -> None:
        """After the token was checked: whoever shares the address gets in with a good one."""
        if self._strangers is not None:
            address = request.client.host if request.client else ""
            self._strangers.take(network_of_address(address))


def read_bearer_token(request: Request) -> str:
    """The token of the one header it may come in: a query is in every log on its way."""
    given = [value for value in request.headers.getlist("authorization") if value.strip()]
    if len(given) > 1:
        raise NotSignedIn("invalid token")
    scheme, _, token = (given or [""])[0].partition(" ")
    if not token.strip():
        raise NotSignedIn("missing authorization")
    if scheme.lower() != "bearer":
        raise NotSignedIn("invalid token")
    return token.strip(" ")


def refuse_other_sites(request: Request) -> None:
    """Without tokens, any page in the user's browser could ask in their name.

    A page of another site says so in `Origin`; one that has its own name lead to this machine
    says that name in `Host`.
    """
    host, origin = request.headers.get("host", ""), request.headers.get("origin")
    is_ours = origin in (None, f"http://{host}", f"https://{host}")
    try:
        is_here = is_loopback(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        is_here = False
    if not is_here or not is_ours:
        raise NotPermitted("auth is off: only requests from this machine's own pages are answered")


async def identify_caller(request: Request) -> ApiCaller:
    """Whoever asks, found out once for each request."""
    known: ApiCaller | None = getattr(request.state, "person", None)
    if known is None:
        gate: Authenticator = request.app.state.gate
        known = request.state.person = await gate.admit(request)
    return known


# For routes that write down who did it: `.name`, `.role`, `.token_id`, `.request_id`.
Caller = Annotated[ApiCaller, Depends(identify_caller)]


@dataclass(frozen=True)
class AccessRule:
    """Who may use an operation: whoever has the role or a higher one; None: everyone."""

    role: Role | None

    async def __call__(self, request: Request) -> None:
        if self.role is None:
            return
        (await identify_caller(request)).check(self.role)


def needs(role: Role) -> Any:
    """A dependency for routes: whoever asks must have this role or a higher one."""
    return Depends(AccessRule(role))


def open_to_all() -> Any:
    """A dependency for routes that need no token, so that none is open by oversight."""
    return Depends(AccessRule(None))


def find_access_rule(dependant: Any) -> AccessRule | None:
    """The rule among a route's dependencies; the strictest, if there are several."""
    found = [each.call for each in dependant.dependencies if isinstance(each.call, AccessRule)]
    found.sort(key=lambda rule: list(Role).index(rule.role) if rule.role else -1)
    return found[-1] if found else None
