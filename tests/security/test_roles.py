"""Every operation has an access rule, documents it, and keeps to it; found in the routes."""

import re

import httpx2 as httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute, iter_route_contexts

from evenbeat.app import Evenbeat
from evenbeat.config import Settings
from evenbeat.core.ops.access import Role
from evenbeat.server import build_site
from evenbeat.web.auth import find_access_rule
from tests.support.serving import SECRET, assert_problem, client_of, token_for

SITE = build_site(
    Evenbeat(Settings(jwt_secret=SECRET, database_url="postgresql://nobody@nowhere/x"))
)
OPEN = {
    *("/livez", "/readyz", "/actuator/health", "/actuator/info"),
    *("/actuator/health/liveness", "/actuator/health/readiness"),
}
# They have a body, and change nothing.
QUESTIONS = {"/api/v1/schedule/preview", "/api/v1/scheduler/forecast"}
OPERATIONS = [
    pytest.param(verb.upper(), path, operation, id=f"{verb.upper()} {path}")
    for path, verbs in SITE.openapi()["paths"].items()
    for verb, operation in verbs.items()
]


def unruled(site: FastAPI) -> list[str]:
    """What is served without a rule, be it in the description or not."""
    routes = list(iter_route_contexts(site.routes))
    return [
        str(route.path)
        for route in routes
        if not isinstance(route.original_route, APIRoute)
        or find_access_rule(route.dependant) is None
    ]


def test_nothing_is_served_without_a_rule() -> None:
    assert unruled(SITE) == []


def test_a_route_without_a_rule_would_be_found() -> None:
    site = build_site(Evenbeat(Settings(jwt_secret=SECRET, database_url="postgresql://nobody@x/x")))
    site.add_api_route("/forgotten", lambda: "open to all by oversight")
    site.mount("/mounted", FastAPI())
    assert unruled(site) == ["/forgotten", "/mounted"]


@pytest.mark.parametrize(("method", "path", "operation"), OPERATIONS)
def test_an_operation_says_who_may_use_it(method: str, path: str, operation: dict) -> None:
    assert operation["x-role"] in {*Role, "open"}
    assert (operation["x-role"] == "open") == (path in OPEN)
    assert bool(operation["security"]) == (path not in OPEN)
    if method != "GET" and path not in QUESTIONS:
        assert operation["x-role"] in (Role.OPERATOR, Role.ADMIN)


@pytest.mark.parametrize(("method", "path", "operation"), OPERATIONS)
def test_every_status_of_an_operation_is_described(method: str, path: str, operation: dict) -> None:
    if path in OPEN:
        return
    responses = operation["responses"]
    expected = {"401", "403", "429", "500", "503"}
    # For invalid fields, clients of /tasks expect 400 and know no 422.
    refusal = "400" if path.startswith("/tasks") else "422"
    assert refusal == "422" or "422" not in responses
    if "{" in path:
        expected |= {"404", refusal}
    if "requestBody" in operation:
        expected |= {"400", "408", "413", "415", refusal}
    assert expected <= responses.keys()
    for code, response in responses.items():
        assert len(response["description"]) > 3
        if code >= "400":
            [(kind, content)] = response["content"].items()
            assert kind == "application/problem+json"
            assert content["schema"] == {"$ref": "#/components/schemas/Problem"}
            assert content["example"]["status"] == int(code)


@pytest.mark.parametrize(("method", "path", "operation"), OPERATIONS)
def test_an_operation_keeps_to_its_rule_and_to_its_statuses(
    address: str, method: str, path: str, operation: dict
) -> None:
    """With an empty body and unknown ids, so that a permitted request still changes nothing."""
    place = re.sub(r"{\w+}", "01890000-0000-7000-8000-000000000000", path)
    least = operation["x-role"]
    for role in (None, *Role):
        with client_of(address, role and token_for(role)) as client:
            body = {} if "requestBody" in operation else None
            answer = client.request(method, place, json=body)
        assert str(answer.status_code) in operation["responses"]
        if least == "open" or (role is not None and role.covers(Role(least))):
            assert answer.status_code not in (401, 403)
        else:
            assert_problem(answer, 403 if role else 401)


def test_the_examples_of_bodies_are_accepted(admin: httpx.Client) -> None:
    document = admin.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    job = admin.post("/api/v1/jobs", json={"kind": "echo", "schedule": "every 1d"})
    places = {
        "TemplateIn": ("PUT", "/api/v1/templates/example"),
        "FillIn": ("POST", "/api/v1/templates/example/jobs"),
        "JobIn": ("POST", "/api/v1/jobs"),
        "TokenIn": ("POST", "/api/v1/tokens"),
        "JobActionIn": ("POST", "/api/v1/jobs/actions"),
        "RestoreIn": ("POST", f"{job.headers['location']}/restore"),
        "ScheduleIn": ("POST", "/api/v1/schedule/preview"),
        "MaintenanceIn": ("PUT", "/api/v1/maintenance"),
        "GroupIn": ("PUT", "/api/v1/groups/example"),
        "LetterActionIn": ("POST", "/api/v1/dead-letters/actions"),
        "ForecastIn": ("POST", "/api/v1/scheduler/forecast"),
        "PreviewIn": ("POST", "/api/v1/scheduler/rebalance/preview"),
        "RebalanceIn": ("POST", "/api/v1/scheduler/rebalance"),
        "UndoIn": ("POST", "/api/v1/scheduler/rebalance/undo"),
    }
    schemas = document["components"]["schemas"]
    # BatchIn holds the examples of JobIn, whose names exist by then.
    assert {name for name in schemas if "examples" in schemas[name]} - {"BatchIn"} == places.keys()
    for name, (method, path) in places.items():
        for example in schemas[name]["examples"]:
            answer = admin.request(method, path, json=example)
            # Without a rebalance before it there is nothing to undo.
            expected = (200, 409) if name == "UndoIn" else (200, 201)
            assert answer.status_code in expected, answer.text
