"""Idempotency keys: a request that comes twice is done once, and answered twice."""

from dataclasses import dataclass, field
from datetime import timedelta

from evenbeat.store.database.pool import Session
from evenbeat.store.database.statements import load_statements

SQL = load_statements("ops/idempotency")
KEYS_KEPT_FOR = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class KeyedRequest:
    """A request with a key, and who sent it."""

    caller: str
    key: str
    fingerprint: bytes
    request_id: str


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """What the first request was told."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class EarlierRequest:
    """The request that came first with a key; without an answer it is at work, or has died."""

    fingerprint: bytes
    request_id: str
    age: timedelta
    answer: StoredResponse | None


async def reserve_key(session: Session, ticket: KeyedRequest) -> bool:
    """False: another request has this key."""
    found = await session.fetch_value(
        SQL["reserve"],
        caller=ticket.caller,
        key=ticket.key,
        fingerprint=ticket.fingerprint,
        request_id=ticket.request_id,
        kept_seconds=KEYS_KEPT_FOR.total_seconds(),
    )
    return found is not None


async def find_earlier_request(session: Session, ticket: KeyedRequest) -> EarlierRequest | None:
    row = await session.fetch_row(SQL["find"], caller=ticket.caller, key=ticket.key)
    if row is None:
        return None
    has_answer = row["status"] is not None
    answer = StoredResponse(row["status"], row["body"], row["headers"]) if has_answer else None
    return EarlierRequest(row["fingerprint"], row["request_id"], row["age"], answer)


async def store_response(session: Session, ticket: KeyedRequest, answer: StoredResponse) -> bool:
    """False: the key is not this request's any more."""
    stored = await session.execute(
        SQL["store"],
        caller=ticket.caller,
        key=ticket.key,
        request_id=ticket.request_id,
        status=answer.status,
        headers=answer.headers,
        body=answer.body,
    )
    return stored == 1


async def release_key(session: Session, ticket: KeyedRequest) -> None:
    await session.execute(
        SQL["release"], caller=ticket.caller, key=ticket.key, request_id=ticket.request_id
    )


async def expire_keys(session: Session, *, limit: int, kept: timedelta = KEYS_KEPT_FOR) -> int:
    """Forget some of the keys that are older than `kept`; says how many."""
    return await session.execute(
        SQL["expire_idempotency"], kept_seconds=kept.total_seconds(), limit=limit
    )
