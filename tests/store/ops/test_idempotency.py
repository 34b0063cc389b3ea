"""Keys in the table: who has one, and when it is forgotten."""

from evenbeat.store.database.pool import Database
from evenbeat.store.ops import idempotency
from evenbeat.store.ops.idempotency import KeyedRequest, StoredResponse
from tests.support.databases import Clock

ANSWER = StoredResponse(201, b"{}", {"location": "/here"})


def ticket(key: str = "k", caller: str = "me", request_id: str = "r") -> KeyedRequest:
    return KeyedRequest(caller, key, b"x" * 32, request_id)


async def test_the_first_has_the_key_until_it_is_released(database: Database) -> None:
    assert await idempotency.reserve_key(database, ticket())
    assert not await idempotency.reserve_key(database, ticket(request_id="s"))
    assert await idempotency.reserve_key(database, ticket(caller="you"))
    await idempotency.release_key(database, ticket(request_id="s"))
    assert not await idempotency.reserve_key(database, ticket()), "only its owner releases it"
    await idempotency.release_key(database, ticket())
    assert await idempotency.reserve_key(database, ticket())


async def test_an_answer_is_stored_once_by_its_owner_and_stays(database: Database) -> None:
    await idempotency.reserve_key(database, ticket())
    assert not await idempotency.store_response(database, ticket(request_id="s"), ANSWER)
    assert await idempotency.store_response(database, ticket(), ANSWER)
    assert not await idempotency.store_response(database, ticket(), StoredResponse(200, b"[]"))
    await idempotency.release_key(database, ticket())
    found = await idempotency.find_earlier_request(database, ticket())
    assert found is not None
    assert found.answer == ANSWER
    assert await idempotency.find_earlier_request(database, ticket("other")) is None


async def test_keys_of_yesterday_are_forgotten_a_few_at_a_time(
    database: Database, clock: Clock
) -> None:
    for number in range(3):
        await idempotency.reserve_key(database, ticket(str(number)))
    await clock.advance(hours=23, minutes=59)
    await idempotency.reserve_key(database, ticket("young"))
    assert await idempotency.expire_keys(database, limit=10) == 0
    await clock.advance(minutes=1)
    assert await idempotency.expire_keys(database, limit=2) == 2
    assert await idempotency.expire_keys(database, limit=2) == 1
    assert await idempotency.find_earlier_request(database, ticket("young")) is not None
