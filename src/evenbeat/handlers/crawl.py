"""crawl: known, so that its jobs can be written down; they wait until a node serves it."""

from typing import Any

from evenbeat.core.errors import FieldError, InvalidInput
from evenbeat.handlers.http.http_payload import fields_of, read_url

TEXTS = ("source_id", "source_name")
FIELDS = ("url", *TEXTS, "metadata")


class Crawl:
    """A kind without a handler."""

    kind = "crawl"

    def check(self, payload: Any) -> None:
        given = fields_of(payload)
        faults = [
            FieldError(f"payload.{name}", f"is not known here; known: {', '.join(FIELDS)}")
            for name in given
            if name not in FIELDS
        ]
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
        if faults:
            raise InvalidInput(faults[0].field, faults[0].message, more=faults[1:])
