"""Idempotency keys: a request that is sent twice is done once, with the same answer twice."""

from dataclasses import dataclass, field
from datetime import timedelta

from evenbeat.store.database.pool import Session
from evenbeat.store.database.statements import load_statements

SQL = load_statements("ops/idempotency")
KEYS_KEPT_FOR = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class KeyedRequest:
    """A request with an idempotency key, and its caller."""

    caller: str
    key: str
    fingerprint: bytes
    request_id: str


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """The response to the first request."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class EarlierRequest:
    """The first request with a key; without an answer it is in progress, or its process died."""

    fingerprint: bytes
    request_id: str
    age: timedelta
    answer: StoredResponse | None


async def reserve_key(session: Session, request: KeyedRequest) -> bool:
    """False: another request has this key."""
    found = await session.fetch_value(
        SQL["reserve"],
        caller=request.caller,
        key=request.key,
        fingerprint=request.fingerprint,
        request_id=request.request_id,
        kept_seconds=KEYS_KEPT_FOR.total_seconds(),
    )
    return found is not None


async def find_earlier_request(session: Session, request: KeyedRequest) -> EarlierRequest | None:
    row = await session.fetch_row(SQL["find"], caller=request.caller, key=request.key)
    if row is None:
        return None
    has_answer = row["status"] is not None
    answer = StoredResponse(row["status"], row["body"], row["headers"]) if has_answer else None
    return EarlierRequest(row["fingerprint"], row["request_id"], row["age"], answer)


async def store_response(session: Session, request: KeyedRequest, answer: StoredResponse) -> bool:
    """False: another request has the key now."""
    stored = await session.execute(
        SQL["store"],
        caller=request.caller,
        key=request.key,
        request_id=request.request_id,
        status=answer.status,
        headers=answer.headers,
        body=answer.body,
    )
    return stored == 1


async def release_key(session: Session, request: KeyedRequest) -> None:
    await session.execute(
        SQL["release"], caller=request.caller, key=request.key, request_id=request.request_id
    )


async def expire_keys(session: Session, *, limit: int, kept: timedelta = KEYS_KEPT_FOR) -> int:
    """Remove some of the keys that are older than `kept`; returns how many."""
    return await session.execute(
        SQL["expire_idempotency"], kept_seconds=kept.total_seconds(), limit=limit
    )
