"""Refusals as clients of tasks know them: 400 for invalid input, with their titles."""

from collections.abc import Sequence
from typing import ClassVar

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError

from evenbeat.api.tasks.wire import FIELDS, SENTENCES
from evenbeat.core.errors import FieldError, InvalidInput, NotFound, UnknownKind
from evenbeat.web.fast_route import FastRoute
from evenbeat.web.idempotency import IdempotentRoute, RouteHandler
from evenbeat.web.problems import MOST_ERRORS, field_error, problem_response

INVALID = "Request has invalid fields"


class TaskRoute(IdempotentRoute):
    """A route of tasks."""

    refusal: ClassVar[int] = 400

    def get_route_handler(self) -> RouteHandler:
        handle = super().get_route_handler()

        async def handle_task(request: Request) -> Response:
            try:
                return await handle(request)
            except UnknownKind as error:
                sentence = describe_unknown_kind(error)
                return problem_response(request, 400, sentence, [FieldError("type", sentence)])
            except InvalidInput as error:
                return refuse(request, error.errors)
            except RequestValidationError as error:
                return refuse(request, [field_error(fault) for fault in error.errors()])
            except NotFound:
                return problem_response(
                    request, 404, f"Task not found: {request.path_params.get('id')}"
                )

        return handle_task


class FastTaskRoute(TaskRoute, FastRoute):
    """The same for a function that takes the request itself."""


def refuse(request: Request, faults: Sequence[FieldError]) -> Response:
    errors = [FieldError(FIELDS.get(each.field, each.field), each.message) for each in faults]
    if errors[0].message in SENTENCES:
        return problem_response(request, 400, errors[0].message, errors)
    return problem_response(request, 400, INVALID, errors[:MOST_ERRORS], title="Validation failed")


def describe_unknown_kind(error: UnknownKind) -> str:
    return f"Unsupported task type: {error.kind}. Supported types: {', '.join(error.known)}"
