"""Public keys of another token issuer: a JSON Web Key Set, fetched and remembered."""

import asyncio
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, cast

import jwt
import orjson

from evenbeat.observe import log

# PyJWT is only half typed.
tokens: Any = jwt

# Fetched again after FRESH; trusted up to TRUSTED while the issuer does not answer.
FRESH = 600.0
TRUSTED = 24 * 3600.0
# A token may name any key: however many unknown names come, we fetch once a minute. Without any
# key no such token can be accepted, so we fetch more often.
PAUSE = 60.0
PAUSE_WITHOUT_KEYS = 5.0
FETCH_TIMEOUT = 3.0
LARGEST_SET = 256 * 1024
MOST_KEYS = 50
SHORTEST_RSA = 2048
# The public parts of a key, by its type; private parts are never read.
RSA, EC = ("kty", "n", "e"), ("kty", "crv", "x", "y")


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """A key that tokens may be signed with, and the one algorithm it is used for."""

    algorithm: str
    material: Any
    kid: str | None = None


class PublicKeys:
    """The keys at one address. They stay trusted while the address does not answer."""

    def __init__(self, url: str, *, elapsed: Callable[[], float] = time.monotonic) -> None:
        self._url = url
        self._elapsed = elapsed
        self._keys: list[VerificationKey] = []
        self._fetched_at = 0.0
        self._tried_at: float | None = None
        self._fetching = asyncio.Lock()

    async def find(self, algorithm: str, kid: str | None) -> list[VerificationKey]:
        """The keys of this algorithm and name; without a name, all of the algorithm."""
        found = self._known(algorithm, kid)
        is_fresh = self._elapsed() - self._fetched_at < FRESH
        # While one request fetches newer keys, the others go on with the known ones.
        if found and (is_fresh or self._fetching.locked()):
            return found
        async with self._fetching:
            if self._may_fetch():
                await self._fetch()
        return self._known(algorithm, kid)

    def _known(self, algorithm: str, kid: str | None) -> list[VerificationKey]:
        if self._elapsed() - self._fetched_at > TRUSTED:
            return []
        return [key for key in self._keys if key.algorithm == algorithm and kid in (None, key.kid)]

    def _may_fetch(self) -> bool:
        pause = PAUSE if self._keys else PAUSE_WITHOUT_KEYS
        return self._tried_at is None or self._elapsed() - self._tried_at >= pause

    async def _fetch(self) -> None:
        self._tried_at = self._elapsed()
        try:
            async with asyncio.timeout(2 * FETCH_TIMEOUT):
                data = await asyncio.to_thread(download, self._url)
            keys = read_keys(data)
        except (OSError, ValueError, HTTPException) as error:
            reason = str(error) or type(error).__name__
            log.get_logger().warning(log.KEYS_NOT_READ, url=self._url, error=reason[:200])
            return
        self._keys, self._fetched_at = keys, self._elapsed()


# No redirect handler: keys come only from the address that was set.
HANDLERS = (
    urllib.request.ProxyHandler,
    urllib.request.HTTPHandler,
    urllib.request.HTTPSHandler,
    urllib.request.FileHandler,
    urllib.request.HTTPDefaultErrorHandler,
    urllib.request.HTTPErrorProcessor,
)


def download(url: str) -> bytes:
    """The bytes at the address, bounded in size and in total time, however slowly they come."""
    opener = urllib.request.OpenerDirector()
    for handler in HANDLERS:
        opener.add_handler(handler())
    deadline, data = time.monotonic() + FETCH_TIMEOUT, b""
    with opener.open(url, timeout=FETCH_TIMEOUT) as answer:
        while part := answer.read1(65_536):
            data += part
            if len(data) > LARGEST_SET:
                raise ValueError(f"more than {LARGEST_SET} bytes came")
            if time.monotonic() > deadline:
                raise TimeoutError(f"the answer took longer than {FETCH_TIMEOUT:g} s")
    return data


def read_keys(data: bytes) -> list[VerificationKey]:
    """The keys of algorithms that we accept; a set without any is an error."""
    found: Any = orjson.loads(data)
    listed = cast("dict[str, Any]", found).get("keys") if isinstance(found, dict) else None
    if not isinstance(listed, list):
        raise ValueError("it is not a JSON Web Key Set")  # noqa: TRY004 - bad data, not a bad call
    keys = list(usable_keys(cast("list[Any]", listed)[:MOST_KEYS]))
    if not keys:
        raise ValueError("it has no key for RS256 or ES256")
    return keys


def usable_keys(listed: list[Any]) -> Iterator[VerificationKey]:
    for entry in listed:
        if not isinstance(entry, dict):
            continue
        jwk = cast("dict[str, Any]", entry)
        algorithm, parts = algorithm_of(jwk)
        if algorithm is None or jwk.get("use", "sig") != "sig":
            continue
        try:
            public = {part: jwk[part] for part in parts}
            material: Any = tokens.PyJWK(public, algorithm=algorithm).key
        # A malformed entry is skipped; the others may be good.
        except (jwt.PyJWTError, LookupError, TypeError, ValueError):
            continue
        if algorithm == "RS256" and material.key_size < SHORTEST_RSA:
            continue
        kid = jwk.get("kid")
        yield VerificationKey(algorithm, material, kid if isinstance(kid, str) else None)


def algorithm_of(jwk: dict[str, Any]) -> tuple[str | None, tuple[str, ...]]:
    """The one algorithm of a key follows from its type; a key that names another is not used."""
    match jwk:
        case {"kty": "RSA"} if jwk.get("alg", "RS256") == "RS256":
            return "RS256", RSA
        case {"kty": "EC", "crv": "P-256"} if jwk.get("alg", "ES256") == "ES256":
            return "ES256", EC
        case _:
            return None, ()
