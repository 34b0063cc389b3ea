"""Requests that may be sent twice: with an Idempotency-Key they are done once.

The key is reserved before the work begins, and the answer is stored after it. Whoever sends the
same request again gets that answer. If the process dies in between, nobody knows whether the work
was done: the key then stays taken, and a repeated request is told to look. At most once, never
twice.
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
# Visible characters; the draft of the IETF has it in quotes, most clients send it without.
KEY = re.compile(rf'"?(?P<key>[!#-~]{{1,{LONGEST_IDEMPOTENCY_KEY}}})"?')
# No request takes longer than this to be answered.
LONGEST_WORK = timedelta(seconds=60)
# A refusal changes nothing, so that the next try may be another one.
REFUSALS = (EvenbeatError, RequestValidationError, HTTPException)
REFUSED = 300
# Written anew for each answer.
FLEETING = {"content-length", "date", "server"}

AT_WORK = "a request with this Idempotency-Key is at work; try again in a moment"
UNKNOWN = (
    "the first request with this Idempotency-Key, {request_id}, ended without an answer: look "
    "whether it took effect, then use another key"
)
OTHER_REQUEST = "has been used for another request; every request needs a key of its own"

RouteHandler = Callable[[Request], Coroutine[Any, Any, Response]]


class IdempotentRoute(APIRoute):
    """A route whose POST may carry an Idempotency-Key: `APIRouter(route_class=Once)`.

    Not for answers with secrets in them, since answers are stored.
    """

    def get_route_handler(self) -> RouteHandler:
        handle = super().get_route_handler()

        async def handle_once(request: Request) -> Response:
            if request.method != "POST" or HEADER not in request.headers:
                return await handle(request)
            database: Database = request.app.state.evenbeat.database
            ticket = await make_ticket(request)
            if await idempotency.reserve_key(database, ticket):
                return await answer_first(database, ticket, handle(request))
            return answer_again(
                request, ticket, await idempotency.find_earlier_request(database, ticket)
            )

        return handle_once


async def make_ticket(request: Request) -> KeyedRequest:
    """Keys are a caller's own, and with another role one is another caller."""
    person = await identify_caller(request)
    known = KEY.fullmatch(request.headers[HEADER])
    if known is None:
        raise InvalidInput(HEADER, f"must have 1 to {LONGEST_IDEMPOTENCY_KEY} visible characters")
    path, query = request.scope["raw_path"], request.scope["query_string"]
    digest = hashlib.sha256(b"POST %b?%b\n" % (path, query) + await request.body())
    caller = f"{person.role} {person.name}"
    return KeyedRequest(caller, known["key"], digest.digest(), person.request_id)


async def answer_first(
    database: Database, ticket: KeyedRequest, working: Awaitable[Response]
) -> Response:
    try:
        response = await working
    except REFUSALS as error:
        # When the database went away in the midst of it, nobody knows what it has done.
        if not isinstance(error, StoreUnavailable):
            with contextlib.suppress(StoreUnavailable):
                await idempotency.release_key(database, ticket)
        raise
    if response.status_code >= REFUSED:
        await idempotency.release_key(database, ticket)
        return response
    headers = {name: value for name, value in response.headers.items() if name not in FLEETING}
    answer = StoredResponse(response.status_code, bytes(response.body), headers)
    try:
        await idempotency.store_response(database, ticket, answer)
    except StoreUnavailable as error:
        # It is done, and whoever asked is there to be told.
        log.get_logger().warning(log.ANSWER_NOT_KEPT, error=str(error))
    return response


def answer_again(
    request: Request, ticket: KeyedRequest, earlier: EarlierRequest | None
) -> Response:
    if earlier is not None and earlier.fingerprint != ticket.fingerprint:
        raise InvalidInput(HEADER, OTHER_REQUEST)
    if earlier is not None and earlier.answer is not None:
        answer = earlier.answer
        return Response(answer.body, answer.status, answer.headers | {REPLAYED: "true"})
    if earlier is None or earlier.age < LONGEST_WORK:
        response = problem_response(request, 409, AT_WORK)
        response.headers["Retry-After"] = "1"
        return response
    return problem_response(request, 409, UNKNOWN.format(request_id=earlier.request_id))
