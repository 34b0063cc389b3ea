"""Requests with an Idempotency-Key: sent twice, they are done once.

The key is reserved before the work begins, and the answer is stored after it. A repeated request
gets the stored answer. If the process dies in between, it is unknown whether the work was done:
the key stays taken, and a repeated request is told to check. So: at most once, never twice.
"""

import contextlib
import hashlib
import re
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from evenbeat.core.errors import EvenbeatError, InvalidInput, StoreUnavailable
from evenbeat.core.limits import LONGEST_IDEMPOTENCY_KEY
from evenbeat.observe import log
from evenbeat.store.database.pool import Database
from evenbeat.store.ops import idempotency
from evenbeat.store.ops.idempotency import EarlierRequest, KeyedRequest, StoredResponse
from evenbeat.web.auth import identify_caller
from evenbeat.web.problems import problem_response

HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
# Visible characters. The IETF draft puts the key in quotes; most clients send it without.
KEY = re.compile(rf'"?(?P<key>[!#-~]{{1,{LONGEST_IDEMPOTENCY_KEY}}})"?')
# Every request is answered within this time.
LONGEST_WORK = timedelta(seconds=60)
# A refused request has changed nothing: its key may be used again.
REFUSALS = (EvenbeatError, RequestValidationError, HTTPException)
REFUSED = 300
# Made anew for each answer, so not stored.
FLEETING = {"content-length", "date", "server"}

AT_WORK = "a request with this Idempotency-Key is still being worked on; try again in a moment"
UNKNOWN = (
    "the first request with this Idempotency-Key, {request_id}, ended without an answer: check "
    "whether it took effect, then use another key"
)
OTHER_REQUEST = "has been used for another request; every request needs a key of its own"

RouteHandler = Callable[[Request], Coroutine[Any, Any, Response]]


class IdempotentRoute(APIRoute):
    """A route whose POST may carry an Idempotency-Key: `APIRouter(route_class=IdempotentRoute)`.

    Not for answers that hold secrets, since answers are stored.
    """

    def get_route_handler(self) -> RouteHandler:
        handle = super().get_route_handler()

        async def handle_once(request: Request) -> Response:
            if request.method != "POST" or HEADER not in request.headers:
                return await handle(request)
            database: Database = request.app.state.evenbeat.database
            keyed = await read_keyed_request(request)
            if await idempotency.reserve_key(database, keyed):
                return await answer_first(database, keyed, handle(request))
            earlier = await idempotency.find_earlier_request(database, keyed)
            return answer_again(request, keyed, earlier)

        return handle_once


async def read_keyed_request(request: Request) -> KeyedRequest:
    """Two callers may use the same key; the same name with another role is another caller."""
    caller = await identify_caller(request)
    key = KEY.fullmatch(request.headers[HEADER])
    if key is None:
        raise InvalidInput(HEADER, f"must have 1 to {LONGEST_IDEMPOTENCY_KEY} visible characters")
    path, query = request.scope["raw_path"], request.scope["query_string"]
    digest = hashlib.sha256(b"POST %b?%b\n" % (path, query) + await request.body())
    owner = f"{caller.role} {caller.name}"
    return KeyedRequest(owner, key["key"], digest.digest(), caller.request_id)


async def answer_first(
    database: Database, keyed: KeyedRequest, working: Awaitable[Response]
) -> Response:
    try:
        response = await working
    except REFUSALS as error:
        # If the database went away during the work, the change may have been committed.
        if not isinstance(error, StoreUnavailable):
            with contextlib.suppress(StoreUnavailable):
                await idempotency.release_key(database, keyed)
        raise
    if response.status_code >= REFUSED:
        await idempotency.release_key(database, keyed)
        return response
    headers = {name: value for name, value in response.headers.items() if name not in FLEETING}
    answer = StoredResponse(response.status_code, bytes(response.body), headers)
    try:
        await idempotency.store_response(database, keyed, answer)
    except StoreUnavailable as error:
        # The work is done, and this caller is still there for the answer.
        log.get_logger().warning(log.ANSWER_NOT_KEPT, error=str(error))
    return response


def answer_again(request: Request, keyed: KeyedRequest, earlier: EarlierRequest | None) -> Response:
    if earlier is not None and earlier.fingerprint != keyed.fingerprint:
        raise InvalidInput(HEADER, OTHER_REQUEST)
    if earlier is not None and earlier.answer is not None:
        answer = earlier.answer
        return Response(answer.body, answer.status, answer.headers | {REPLAYED: "true"})
    if earlier is None or earlier.age < LONGEST_WORK:
        response = problem_response(request, 409, AT_WORK)
        response.headers["Retry-After"] = "1"
        return response
    return problem_response(request, 409, UNKNOWN.format(request_id=earlier.request_id))
