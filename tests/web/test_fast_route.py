"""Routes that bypass FastAPI still check their access rule."""

import pytest
from fastapi import APIRouter, Request, Response

from evenbeat.web.auth import open_to_all
from evenbeat.web.fast_route import FastRoute


async def answer(request: Request) -> Response:
    return Response(request.method)


def test_a_direct_route_without_a_rule_cannot_be_made() -> None:
    router = APIRouter(route_class=FastRoute)
    router.add_api_route("/ruled", answer, dependencies=[open_to_all()])
    with pytest.raises(RuntimeError, match="/forgotten has no rule"):
        router.add_api_route("/forgotten", answer)
