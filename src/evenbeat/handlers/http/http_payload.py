"""The payload of an http job: its fields, their checks, and how they are read."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

import httpx2
import orjson

from evenbeat.core.errors import FieldError, InvalidInput
from evenbeat.core.runs.secrets import check_references, find_reference
from evenbeat.core.time.durations import DurationLimits, parse_duration
from evenbeat.handlers.http.outbound import Headers, HttpRequest
from evenbeat.handlers.payload_fields import fields_of, raise_errors, unknown_fields

FIELDS = (
    *("url", "method", "headers", "body", "json"),
    *("expected_status", "timeout", "follow_redirects"),
)
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
DEFAULT_TIMEOUT = timedelta(seconds=30)
TIMEOUT = DurationLimits(timedelta(milliseconds=100), timedelta(hours=1), fractions=True)
MOST_REDIRECTS = 5
LONGEST_URL = 8_000
MOST_HEADERS = 100
HIGHEST_PORT = 65_535
# These frame or route the message: a payload must not set them.
RESERVED_HEADERS = frozenset(
    ("host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer")
)
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}")
VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]{0,16000}")
STATUS = re.compile(r"([1-5])xx|([1-5]\d\d)(?:-([1-5]\d\d))?", re.IGNORECASE)
NOT_IN_URL = re.compile(r"[\x00-\x20\x7f\\]")


@dataclass(frozen=True, slots=True)
class HttpPayload:
    """A payload that has been read, with all references to secrets filled in."""

    request: HttpRequest
    expected: tuple[range, ...]
    timeout: timedelta
    most_redirects: int

    def is_expected(self, status: int) -> bool:
        return any(status in each for each in self.expected)


def check(payload: Any) -> None:
    """Raise InvalidInput that names every wrong field. Secrets are not known yet."""
    given = fields_of(payload)
    faults = unknown_fields(given, FIELDS)
    if "body" in given and "json" in given:
        faults.append(FieldError("payload.json", "cannot be sent together with body"))
    for name, check_field in CHECKS.items():
        try:
            check_field(given)
            check_references(given.get(name), f"payload.{name}")
        except InvalidInput as error:
            faults.extend(error.errors)
    raise_errors(faults)


def read(payload: Any) -> HttpPayload:
    """Read a payload whose references are filled in."""
    given = fields_of(payload)
    method, headers, body = read_method(given), read_headers(given), given.get("body", "")
    content = read_body(given)
    if "json" in given and not any(name.lower() == "content-type" for name, _ in headers):
        headers = (*headers, ("Content-Type", "application/json"))
    elif body and not any(name.lower() == "content-type" for name, _ in headers):
        headers = (*headers, ("Content-Type", "text/plain; charset=utf-8"))
    return HttpPayload(
        HttpRequest(method, read_url(given), headers, content),
        read_expected(given),
        read_timeout(given),
        read_redirects(given),
    )


def read_url(given: dict[str, Any]) -> httpx2.URL:
    url = given.get("url")
    if not isinstance(url, str) or not url:
        raise InvalidInput("payload.url", "must be the address to call, as in https://example.org/")
    return parse_url(url, "payload.url")


def parse_url(text: str, field: str) -> httpx2.URL:
    """Parse a URL, for the check and for the call alike. Errors never repeat the URL."""
    if len(text) > LONGEST_URL:
        raise InvalidInput(field, f"must have at most {LONGEST_URL} characters")
    if NOT_IN_URL.search(text):
        raise InvalidInput(field, "contains a space, a backslash or a control character")
    try:
        url = httpx2.URL(text)
        port = url.port
    except (httpx2.InvalidURL, ValueError):
        raise InvalidInput(field, "is not a URL") from None
    if url.scheme not in ("http", "https"):
        raise InvalidInput(field, "must begin with http:// or https://")
    if not url.host:
        raise InvalidInput(field, "names no host")
    if url.userinfo:
        raise InvalidInput(
            field, "must not contain a user or a password; send an Authorization header"
        )
    # A zone ("%eth0") would pick one of the machine's own networks.
    if "%" in url.host or (port is not None and not 1 <= port <= HIGHEST_PORT):
        raise InvalidInput(field, "names a host or a port that cannot be called")
    return url


def read_method(given: dict[str, Any]) -> str:
    method = given.get("method", "GET")
    if not isinstance(method, str) or method.upper() not in METHODS:
        raise InvalidInput("payload.method", f"must be one of {', '.join(METHODS)}")
    return method.upper()


def read_headers(given: dict[str, Any]) -> Headers:
    headers = given.get("headers", {})
    if not isinstance(headers, dict):
        raise InvalidInput("payload.headers", "must be an object: a header's name and value")
    items = cast("dict[str, Any]", headers)
    if len(items) > MOST_HEADERS:
        raise InvalidInput("payload.headers", f"must be at most {MOST_HEADERS}")
    for name, value in items.items():
        field = f"payload.headers.{name}"
        if not TOKEN.fullmatch(name):
            raise InvalidInput(field, "is not the name of a header")
        if name.lower() in RESERVED_HEADERS:
            raise InvalidInput(field, "is set by Evenbeat itself")
        if find_reference(value) is None and not (
            isinstance(value, str) and VALUE.fullmatch(value)
        ):
            raise InvalidInput(field, "must be one line of text")
    return tuple(items.items())


def read_body(given: dict[str, Any]) -> bytes:
    if "json" in given:
        return orjson.dumps(given["json"])
    body = given.get("body", "")
    if not isinstance(body, str):
        raise InvalidInput("payload.body", "must be text; an object is sent as json")
    return body.encode()


def read_expected(given: dict[str, Any]) -> tuple[range, ...]:
    """200, "2xx", "200-204", or a list of these."""
    field = "payload.expected_status"
    wanted = given.get("expected_status", "2xx")
    each = cast("list[Any]", wanted) if isinstance(wanted, list) else [wanted]
    if not each:
        raise InvalidInput(field, "must not be empty")
    return tuple(read_status(status, field) for status in each)


def read_status(status: Any, field: str) -> range:
    is_readable = type(status) is int or isinstance(status, str)
    found = STATUS.fullmatch(str(status)) if is_readable else None
    if found is None:
        raise InvalidInput(field, 'must be a status such as 204, "2xx" or "200-299", or a list')
    hundred, first, last = found.groups()
    if hundred:
        return range(int(hundred) * 100, int(hundred) * 100 + 100)
    return range(int(first), int(last or first) + 1)


def read_timeout(given: dict[str, Any]) -> timedelta:
    if "timeout" not in given:
        return DEFAULT_TIMEOUT
    return parse_duration(given["timeout"], "payload.timeout", TIMEOUT)


def read_redirects(given: dict[str, Any]) -> int:
    most = given.get("follow_redirects", False)
    if isinstance(most, bool):
        return MOST_REDIRECTS if most else 0
    if type(most) is not int or not 0 <= most <= MOST_REDIRECTS:
        raise InvalidInput(
            "payload.follow_redirects", f"must be true, false, or a number up to {MOST_REDIRECTS}"
        )
    return most


FieldCheck = Callable[[dict[str, Any]], object]


def unless_secret(name: str, check_field: FieldCheck) -> FieldCheck:
    """Skip the check of a field that is a reference to a secret: only the run can read it."""

    def check_text(given: dict[str, Any]) -> object:
        return None if find_reference(given.get(name)) is not None else check_field(given)

    return check_text


CHECKS: dict[str, FieldCheck] = {
    "url": unless_secret("url", read_url),
    "method": read_method,
    "headers": read_headers,
    "body": unless_secret("body", read_body),
    "json": lambda given: None,
    "expected_status": read_expected,
    "timeout": read_timeout,
    "follow_redirects": read_redirects,
}
