"""Tokens: JSON Web Tokens, the roles they carry, and the secret that signs them.

Apart from the faces, so that `evenbeat token` need not load them.
"""

import os
import secrets
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

import jwt

from evenbeat.config import SHORTEST_SECRET, Settings
from evenbeat.core.errors import InvalidSettings, NotSignedIn

# PyJWT is only half typed without the extra for public keys.
tokens: Any = jwt

ALGORITHM = "HS256"
SECRET_FILE = "jwt-secret"  # noqa: S105 - the name of a file
LONGEST_TOKEN = 8_192


class Role(StrEnum):
    """What a person may do: look, operate, or everything."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    def covers(self, needed: "Role") -> bool:
        order = list(Role)
        return order.index(self) >= order.index(needed)


def make_token(settings: Settings, *, name: str, role: Role, lifetime: timedelta) -> str:
    now = datetime.now(UTC)
    claims = {"sub": name, "role": role.value, "iat": now, "exp": now + lifetime}
    return tokens.encode(claims, secret_of(settings), algorithm=ALGORITHM)


def read_token(token: str, secret: str) -> dict[str, Any]:
    """The claims of a good token; why another one is not good is of use to attackers only."""
    if len(token) > LONGEST_TOKEN:
        raise NotSignedIn("invalid token")
    try:
        return tokens.decode(token, secret, algorithms=[ALGORITHM], options={"require": ["exp"]})
    # The header is parsed before the signature is checked: what is in it is anybody's.
    except (jwt.InvalidTokenError, ValueError, OverflowError, RecursionError):
        raise NotSignedIn("invalid token") from None


def secret_of(settings: Settings) -> str:
    """The configured secret, or the one of the data directory, made when there is none."""
    if settings.jwt_secret is not None:
        return settings.jwt_secret.get_secret_value()
    path = settings.data_dir / SECRET_FILE
    try:
        settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_once(path, secrets.token_urlsafe(48))
        secret = path.read_bytes().decode("ascii", "replace").strip()
    except OSError as error:
        raise InvalidSettings(
            "jwt_secret", f"cannot be kept in {path}: {error.strerror}; set EVENBEAT_JWT_SECRET"
        ) from None
    if len(secret) < SHORTEST_SECRET:
        raise InvalidSettings(
            "jwt_secret",
            f"{path} holds fewer than {SHORTEST_SECRET} characters: remove it to have another one "
            "made, which ends all tokens",
        )
    return secret


def write_once(path: Path, secret: str) -> None:
    """Two processes may start at once: a link appears whole or not at all, and only once."""
    if path.exists():
        return
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(secret)
        file.flush()
        os.fsync(file.fileno())
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        return
    finally:
        draft.unlink()
