"""JSON bodies read without a pydantic model, for the busiest routes."""

import json
from typing import Any, cast

from fastapi import Request
from starlette.exceptions import HTTPException

from evenbeat.core.errors import InvalidInput
from evenbeat.web.problems import NOT_AN_OBJECT, is_json


async def read_object(request: Request) -> dict[str, Any]:
    """The body as an object; refused with the same problems as a body that has a model."""
    if not is_json(request.headers.get("content-type", "")):
        raise HTTPException(415, NOT_AN_OBJECT)
    try:
        # Not orjson: it silently turns long integers into floats.
        body = json.loads(await request.body())
    except json.JSONDecodeError as error:
        raise HTTPException(400, f"the body is not JSON: {error.msg}") from None
    except (RecursionError, ValueError) as error:
        # `problems` words the reason by the cause.
        raise HTTPException(400) from error
    if not isinstance(body, dict):
        raise InvalidInput("body", NOT_AN_OBJECT)
    return cast("dict[str, Any]", body)
