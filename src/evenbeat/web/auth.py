"""Sign-in: who the caller is, and what they may do."""

from dataclasses import dataclass, replace
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

# Failed sign-ins get a tenth of the request rate.
FAILED_SIGN_IN_SHARE = 0.1


class Authenticator:
    """Checks the token of each request, and limits how often a caller may ask."""

    def __init__(self, app: Evenbeat) -> None:
        settings = app.settings
        self._app = app
        self._reader = None if settings.auth == "off" else TokenReader(settings)
        rate = settings.rate_limit
        self._callers = RateLimiter(rate) if rate else None
        self._failures = (
            RateLimiter(rate * FAILED_SIGN_IN_SHARE, "failed sign-ins") if rate else None
        )

    async def sign_in(self, request: Request) -> ApiCaller:
        """The caller of this request. Raises NotSignedIn or TooManyRequests."""
        try:
            caller = await self._identify(request)
        except NotSignedIn:
            self._count_failure(request)
            raise
        if self._callers is not None:
            request.state.allowance = self._callers.take(f"{caller.token_id or ''}:{caller.name}")
        return replace(caller, request_id=request_id_of(request))

    async def _identify(self, request: Request) -> ApiCaller:
        if self._reader is None:
            refuse_other_sites(request)
            return ApiCaller("anyone", Role.ADMIN)
        caller = await self._reader.read(read_bearer_token(request))
        if caller.token_id is not None and await self._app.tokens.is_revoked(caller.token_id):
            raise NotSignedIn("invalid token")
        return caller

    def _count_failure(self, request: Request) -> None:
        """Counted by address after the check, so that good tokens work from a blocked address."""
        if self._failures is not None:
            address = request.client.host if request.client else ""
            self._failures.take(network_of_address(address))


def read_bearer_token(request: Request) -> str:
    """The token of the Authorization header. A query is no place for it: proxies log queries."""
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
    """Without tokens, any web page in the user's browser could send requests to us.

    A browser names the page's site in `Origin`. A page whose own domain resolves to this machine
    (DNS rebinding) has that domain in `Host`.
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
    """The caller of a request, signed in once and then remembered in the request's state."""
    known: ApiCaller | None = getattr(request.state, "caller", None)
    if known is None:
        authenticator: Authenticator = request.app.state.authenticator
        known = request.state.caller = await authenticator.sign_in(request)
    return known


# For routes that record who did it: `.name`, `.role`, `.token_id`, `.request_id`.
Caller = Annotated[ApiCaller, Depends(identify_caller)]


@dataclass(frozen=True)
class AccessRule:
    """Who may use an operation: callers with this role or a higher one; None: everyone."""

    role: Role | None

    async def __call__(self, request: Request) -> None:
        if self.role is None:
            return
        (await identify_caller(request)).check(self.role)


def needs(role: Role) -> Any:
    """A dependency for routes: the caller must have this role or a higher one."""
    return Depends(AccessRule(role))


def open_to_all() -> Any:
    """A dependency for routes without a token; required, so that no route is open by oversight."""
    return Depends(AccessRule(None))


def find_access_rule(dependant: Any) -> AccessRule | None:
    """The rule among a route's dependencies; the strictest, if there are several."""
    found = [each.call for each in dependant.dependencies if isinstance(each.call, AccessRule)]
    found.sort(key=lambda rule: list(Role).index(rule.role) if rule.role else -1)
    return found[-1] if found else None
