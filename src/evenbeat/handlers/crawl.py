"""crawl: a kind without a handler. Its jobs can be added, and wait for a node that serves it."""

from typing import Any

from evenbeat.core.errors import FieldError, InvalidInput
from evenbeat.handlers.http.http_payload import read_url
from evenbeat.handlers.payload_fields import fields_of, raise_errors, unknown_fields

TEXTS = ("source_id", "source_name")
FIELDS = ("url", *TEXTS, "metadata")


class Crawl:
    """A kind without a handler."""

    kind = "crawl"

    def check(self, payload: Any) -> None:
        given = fields_of(payload)
        faults = unknown_fields(given, FIELDS)
        faults += [
            FieldError(f"payload.{name}", "must be text")
            for name in TEXTS
            if not isinstance(given.get(name), str | None)
        ]
        if not isinstance(given.get("metadata", {}), dict):
            faults.append(FieldError("payload.metadata", "must be an object"))
        try:
            read_url(given)
        except InvalidInput as error:
            faults.extend(error.errors)
        raise_errors(faults)
