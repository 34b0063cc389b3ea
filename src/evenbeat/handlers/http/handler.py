"""http: sends a request, and succeeds if the answer has an expected status."""

import asyncio
import time
from dataclasses import replace
from typing import Any

import httpx2

from evenbeat.core.errors import AddressRefused, InvalidInput
from evenbeat.core.jobs.model import ErrorClass
from evenbeat.core.runs.handler import RunContext
from evenbeat.core.runs.outcome import Done, Failed, Outcome
from evenbeat.core.runs.secrets import SHORTEST_WORD, Secrets, find_reference, holds_reference
from evenbeat.handlers.http import http_payload
from evenbeat.handlers.http.http_payload import HttpPayload
from evenbeat.handlers.http.outbound import HttpRequest, HttpResponse, OutboundClient, Unreachable

# How much of a body is kept: as the result, and in the error of an unexpected status.
LONGEST_BODY = 64_000
LONGEST_HINT = 500
LONGEST_HEADER = 1_000
KEPT_HEADERS = (
    *("content-type", "content-length", "etag", "last-modified", "location"),
    *("retry-after", "date", "server"),
)
REDIRECTS = (301, 302, 303, 307, 308)
# Removed when a redirect leads to another host.
FOR_ONE_HOST = ("authorization", "cookie", "proxy-authorization")


class Http:
    """A failed request is retried by the job's policy, and retry rules may name the error:
    `HTTP 503`, `Unreachable`. What can never work, such as a private address, is not retried."""

    kind = "http"

    def __init__(self, outbound: OutboundClient) -> None:
        self._outbound = outbound

    def check(self, payload: Any) -> None:
        http_payload.check(payload)

    async def run(self, context: RunContext) -> Outcome:
        shown = shown_target(context.payload)
        try:
            call = http_payload.read(context.secrets.fill(context.payload))
        except InvalidInput as error:
            # A field that is a secret cannot be checked before the run.
            return Failed(str(error), error_type="InvalidInput", is_final=True)
        if find_reference(context.payload["url"]) is not None:
            hide_parts(call.request.url, context.secrets)
        has_secrets = holds_reference(context.payload)
        began = time.monotonic()
        limit = asyncio.timeout(call.timeout.total_seconds())
        try:
            async with limit:
                answer = await self._follow(call, has_secrets=has_secrets)
        except TimeoutError:
            if not limit.expired():
                raise
            seconds = call.timeout.total_seconds()
            return Failed(f"{shown}: no whole answer within {seconds:g} s", ErrorClass.TIMEOUT)
        except AddressRefused as error:
            return Failed(f"{shown}: {error}", error_type="AddressRefused", is_final=True)
        except Unreachable as error:
            return Failed(f"{shown}: {error}", error_type="Unreachable")
        return response_outcome(call, answer, shown, context, time.monotonic() - began)

    async def _follow(self, call: HttpPayload, *, has_secrets: bool) -> HttpResponse:
        """Send, and follow redirects; every address on the way is checked."""
        request, left = call.request, call.most_redirects
        while True:
            answer = await self._outbound.send(request)
            location = answer.headers.get("location")
            is_last = answer.status not in REDIRECTS or not location
            if is_last or call.most_redirects == 0:
                return answer
            if left == 0:
                raise Unreachable(f"more than {call.most_redirects} redirects")
            left -= 1
            request = redirected(request, answer.status, location or "", has_secrets=has_secrets)


def hide_parts(url: httpx2.URL, secrets: Secrets) -> None:
    """Mask parts of a URL that is a secret: the answer may quote some of it."""
    for part in (str(url), url.raw_path.decode("ascii"), url.path):
        # Not "/", which would be masked everywhere.
        if len(part) >= SHORTEST_WORD:
            secrets.hide(part)


def redirected(
    request: HttpRequest, status: int, location: str, *, has_secrets: bool
) -> HttpRequest:
    try:
        joined = str(request.url.join(location))
        url = http_payload.parse_url(joined, "location")
    except (InvalidInput, httpx2.InvalidURL, ValueError):
        raise AddressRefused("it redirects to an address that is not http or https") from None
    is_elsewhere = origin(url) != origin(request.url)
    if is_elsewhere and has_secrets:
        raise AddressRefused(
            f"it redirects to {url.host}, and the secrets of this job are not sent there"
        )
    headers = request.headers
    if is_elsewhere:
        headers = tuple(each for each in headers if each[0].lower() not in FOR_ONE_HOST)
    becomes_get = status == 303 or (status in (301, 302) and request.method == "POST")
    if becomes_get and request.method != "HEAD":
        headers = tuple(each for each in headers if each[0].lower() != "content-type")
        return HttpRequest("GET", url, headers)
    return replace(request, url=url, headers=headers)


def origin(url: httpx2.URL) -> tuple[str, str, int]:
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}[url.scheme]


def response_outcome(
    call: HttpPayload, answer: HttpResponse, shown: str, context: RunContext, spent: float
) -> Outcome:
    # Masked before it is cut: half a secret would not be recognised.
    body = context.secrets.mask(text_of(answer))
    if not call.is_expected(answer.status):
        hint = f": {body[:LONGEST_HINT]}" if body.strip() else ""
        return Failed(f"{shown} answered {answer.status}{hint}", error_type=f"HTTP {answer.status}")
    return Done(
        result={
            "status": answer.status,
            "headers": {
                name: answer.headers[name][:LONGEST_HEADER]
                for name in KEPT_HEADERS
                if name in answer.headers
            },
            "body": body[:LONGEST_BODY],
            "truncated": answer.is_cut or len(body) > LONGEST_BODY,
            "duration": round(spent, 3),
        }
    )


def text_of(answer: HttpResponse) -> str:
    """The body as text that can be stored."""
    _, _, parameter = answer.headers.get("content-type", "").lower().partition("charset=")
    charset = parameter.split(";")[0].strip().strip('"')
    # More than is kept, so that a secret at the end of the excerpt is seen whole.
    beginning = answer.body[: 8 * LONGEST_BODY]
    try:
        text = beginning.decode(charset or "utf-8", "replace")
    except (LookupError, ValueError):
        text = beginning.decode("utf-8", "replace")
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()


def shown_target(payload: Any) -> str:
    """The request as errors name it: without the query, which often holds keys."""
    method = str(payload.get("method", "GET")).upper()
    name = find_reference(payload["url"])
    if name is not None:
        return f"{method} (secret {name})"
    return f"{method} {str(payload['url']).partition('?')[0][:LONGEST_HINT]}"
