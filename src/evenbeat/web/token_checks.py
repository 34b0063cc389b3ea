"""Checks tokens: JSON Web Tokens, by the rules of RFC 8725."""

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import jwt

from evenbeat.config import Settings
from evenbeat.control.ops.token_signing import ALGORITHM, find_signing_secrets
from evenbeat.core.errors import NotSignedIn
from evenbeat.core.jobs.ids import read_uid
from evenbeat.core.ops.access import Role, is_valid_name
from evenbeat.web.caller import ApiCaller
from evenbeat.web.jwks import PublicKeys, VerificationKey

# PyJWT is only half typed.
tokens: Any = jwt

LONGEST_TOKEN = 8_192
# By how much the clocks of two machines may differ.
LEEWAY = timedelta(seconds=30)
# The oldest entry is dropped first; its token is checked anew when it comes again.
MOST_KNOWN = 1_000
# The header is parsed before the signature is checked, so it may hold anything.
BAD_TOKEN = (jwt.InvalidTokenError, ValueError, TypeError, OverflowError, RecursionError)


@dataclass(frozen=True, slots=True)
class Expected:
    """The claims that a token must have; None: not checked."""

    audience: str | None = None
    issuer: str | None = None


class TokenCache:
    """Good tokens that were checked already: checking one takes longer than most requests.

    Only tokens signed with our own secrets, which do not change while a process runs; the keys of
    other issuers do. `find` checks the expiry each time; the authenticator checks revocation.
    """

    def __init__(self, most: int = MOST_KNOWN) -> None:
        self._most = most
        # By their digests, so that no token stays in memory.
        self._callers: dict[bytes, tuple[ApiCaller, int]] = {}

    def find(self, token: str) -> ApiCaller | None:
        known = self._callers.get(digest_of(token))
        if known is None or known[1] <= time.time() - LEEWAY.total_seconds():
            return None
        return known[0]

    def remember(self, token: str, caller: ApiCaller, claims: dict[str, Any]) -> None:
        if len(self._callers) >= self._most:
            del self._callers[next(iter(self._callers))]
        self._callers[digest_of(token)] = caller, int(claims["exp"])


def digest_of(token: str) -> bytes:
    # surrogatepass: text that is no valid Unicode has a digest too.
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()


class TokenReader:
    """Checks tokens with the keys of the settings. No claim or header of a token adds a key."""

    def __init__(self, settings: Settings) -> None:
        self._known = TokenCache()
        self._secrets = [
            VerificationKey(ALGORITHM, secret) for secret in find_signing_secrets(settings)
        ]
        url = settings.jwt_jwks_url
        self._public = None if url is None else PublicKeys(url)
        self._expected = Expected(settings.jwt_audience, settings.jwt_issuer)

    async def read(self, token: str) -> ApiCaller:
        """The caller that a token names. The error never says why a token is bad."""
        if len(token) > LONGEST_TOKEN:
            raise NotSignedIn("invalid token")
        known = self._known.find(token)
        if known is not None:
            return known
        try:
            keys = await self._keys_for(tokens.get_unverified_header(token))
        except BAD_TOKEN:
            raise NotSignedIn("invalid token") from None
        claims = claims_of(token, keys, self._expected)
        caller = caller_from_claims(claims)
        if keys is self._secrets:
            self._known.remember(token, caller, claims)
        return caller

    async def _keys_for(self, header: dict[str, Any]) -> Sequence[VerificationKey]:
        """The keys that may have signed it. Each key is used for its own algorithm only."""
        algorithm, kid = header.get("alg"), header.get("kid")
        if algorithm == ALGORITHM:
            return self._secrets
        if self._public is None or not isinstance(algorithm, str):
            return []
        return await self._public.find(algorithm, kid if isinstance(kid, str) else None)


def claims_of(token: str, keys: Sequence[VerificationKey], expected: Expected) -> dict[str, Any]:
    for key in keys:
        try:
            return tokens.decode(
                token,
                key.material,
                algorithms=[key.algorithm],
                audience=expected.audience,
                issuer=expected.issuer,
                leeway=LEEWAY,
                options={"require": ["exp"], "verify_aud": expected.audience is not None},
            )
        except jwt.InvalidSignatureError:
            continue
        except BAD_TOKEN:
            break
    raise NotSignedIn("invalid token")


def caller_from_claims(claims: dict[str, Any]) -> ApiCaller:
    # Tokens made for the interval scheduler have no role; with them everything but administration
    # was allowed. An unknown role is refused.
    name = claims.get("sub", "unknown")
    try:
        role = Role(claims.get("role", Role.OPERATOR))
    except ValueError:
        raise NotSignedIn("invalid token") from None
    if not is_valid_name(name):
        raise NotSignedIn("invalid token")
    return ApiCaller(name, role, token_id=read_uid(claims.get("jti")))
