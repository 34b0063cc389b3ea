"""Signing: the secret of our tokens, and tokens signed with it."""

import os
import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import jwt

from evenbeat.config import SHORTEST_SECRET, Settings
from evenbeat.core.errors import InvalidSettings
from evenbeat.core.ops.access import AccessToken, Role, check_name

# PyJWT is only half typed.
tokens: Any = jwt

ALGORITHM = "HS256"
SECRET_FILE = "jwt-secret"  # noqa: S105 - the name of a file


def draft_token(*, name: str, role: Role, lifetime: timedelta, issued_by: str) -> AccessToken:
    """A token that is valid from now on, by the clock of this machine. Nothing is stored."""
    check_name(name)
    now = datetime.now(UTC)
    return AccessToken(uuid4(), name, role, now, now + lifetime, issued_by)


def sign_token(settings: Settings, token: AccessToken) -> str:
    """The token as its bearer gets it, with the claims that our own checks ask for."""
    claims: dict[str, Any] = {
        "jti": str(token.id),
        "sub": token.name,
        "role": token.role.value,
        "iat": token.issued_at,
        "exp": token.expires_at,
    }
    if settings.jwt_audience is not None:
        claims["aud"] = settings.jwt_audience
    if settings.jwt_issuer is not None:
        claims["iss"] = settings.jwt_issuer
    return tokens.encode(claims, find_signing_secret(settings), algorithm=ALGORITHM)


def make_token(settings: Settings, *, name: str, role: Role, lifetime: timedelta) -> str:
    """A signed token that is not recorded: it is in no list, and cannot be revoked."""
    return sign_token(
        settings, draft_token(name=name, role=role, lifetime=lifetime, issued_by=name)
    )


def find_signing_secrets(settings: Settings) -> list[str]:
    """The secrets that a token may be signed with: the one in force, then the previous one."""
    previous = settings.jwt_secret_previous
    return [find_signing_secret(settings), *([previous.get_secret_value()] if previous else [])]


def find_signing_secret(settings: Settings) -> str:
    """The configured secret, or the one in the data directory, which is made if it is missing."""
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
    """Write the file unless it exists. A hard link is atomic, if two processes start at once."""
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
