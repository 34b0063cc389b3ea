"""Conditional requests: only if it is still what I saw, or only if it is something new.

A tag has the version of what people wrote, and then a digest of the whole answer: `"7-5d41402a"`.
Who asks for news compares all of it, since a job moves on without being edited. Who edits compares
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
    """Whether the client has it; weak tags are as good as others for that."""
    if if_none_match.strip() == "*":
        return True
    return any(f'"{known["text"]}"' == tag for known in TAG.finditer(if_none_match))


@dataclass(frozen=True, slots=True)
class IfMatchVersions:
    """The versions that `If-Match` allows; None: any, since it was not sent or says `*`."""

    versions: frozenset[int] | None = None

    def check(self, version: int) -> None:
        """Raise PreconditionFailed if this version is not wanted.

        For a change that must not race with another, look up and change in one statement:
        `versions` is for its WHERE.
        """
        if self.versions is not None and version not in self.versions:
            raise PreconditionFailed(
                f"it has been changed: it is at version {version} now; read it again"
            )


async def read_if_match(request: Request) -> IfMatchVersions:
    # The values of several lines are one list.
    text = ", ".join(request.headers.getlist("if-match"))
    if not text or text.strip() == "*":
        return IfMatchVersions()
    found = (VERSION.fullmatch(each["text"]) for each in TAG.finditer(text) if not each["weak"])
    # What cannot be read is no version of ours: then nothing matches.
    return IfMatchVersions(frozenset(int(each["version"]) for each in found if each))


IfMatch = Annotated[IfMatchVersions, Depends(read_if_match)]
