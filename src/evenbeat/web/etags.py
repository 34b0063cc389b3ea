"""Conditional requests: If-Match for edits, If-None-Match for reads.

A tag has the version of the definition, then a digest of the whole answer: `"7-5d41402a"`.
If-None-Match compares all of it, since a job's state changes without an edit. If-Match compares
the version alone: else a job that runs every second could never be edited.
"""

import hashlib
import re
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from pydantic import BaseModel

from evenbeat.core.errors import PreconditionFailed

TAG = re.compile(r'(?P<weak>W/)?"(?P<text>[^"]*)"')
VERSION = re.compile(r"(?P<version>\d{1,18})(-[0-9a-f]*)?")


def make_etag(version: int, answer: BaseModel) -> str:
    digest = hashlib.blake2b(answer.model_dump_json().encode(), digest_size=8)
    return f'"{version}-{digest.hexdigest()}"'


def set_etag(response: Response, version: int, answer: Any) -> Any:
    """The same answer, with its ETag among the headers."""
    response.headers["ETag"] = make_etag(version, answer)
    return answer


def is_etag_known(tag: str, if_none_match: str) -> bool:
    """Whether the client has this answer. Weak tags count, as RFC 9110 has it for If-None-Match."""
    if if_none_match.strip() == "*":
        return True
    return any(f'"{known["text"]}"' == tag for known in TAG.finditer(if_none_match))


@dataclass(frozen=True, slots=True)
class IfMatchVersions:
    """The versions that `If-Match` allows; None: any (not sent, or `*`)."""

    versions: frozenset[int] | None = None

    def check(self, version: int) -> None:
        """Raise PreconditionFailed if this version is not allowed.

        A change that must not race with another compares `versions` in its WHERE instead.
        """
        if self.versions is not None and version not in self.versions:
            raise PreconditionFailed(
                f"it has been changed: it is at version {version} now; read it again"
            )


async def read_if_match(request: Request) -> IfMatchVersions:
    # Several header lines are one list.
    text = ", ".join(request.headers.getlist("if-match"))
    if not text or text.strip() == "*":
        return IfMatchVersions()
    found = (VERSION.fullmatch(each["text"]) for each in TAG.finditer(text) if not each["weak"])
    # An unreadable tag is no version of ours: nothing matches it.
    return IfMatchVersions(frozenset(int(each["version"]) for each in found if each))


IfMatch = Annotated[IfMatchVersions, Depends(read_if_match)]
