"""Groups over HTTP: made, changed, paused, and what jobs say of them."""

import secrets
from urllib.parse import quote

import httpx2 as httpx
import pytest

from evenbeat.core.ops.access import Role
from tests.support.serving import assert_problem, assert_refused, client_of, token_for

JOBS, GROUPS = "/api/v1/jobs", "/api/v1/groups"
LATER = {"kind": "echo", "schedule": "once 2100-01-01T00:00:00Z"}


@pytest.fixture
def key() -> str:
    return f"group-{secrets.token_hex(4)}"


def test_a_group_is_made_read_changed_and_listed(api: httpx.Client, key: str) -> None:
    made = api.put(f"{GROUPS}/{key}", json={"max_running": 2, "rate": "100/m"})
    assert made.status_code == 201
    assert (made.json()["max_running"], made.json()["rate"]) == (2, "100/1m")
    changed = api.put(f"{GROUPS}/{key}", json={"max_running": 3})
    assert (changed.status_code, changed.json()["rate"]) == (200, None)
    seen = api.get(f"{GROUPS}/{key}").json()
    assert seen["group"] == changed.json()
    assert (seen["group"]["running"], seen["group"]["waiting"]) == (0, 0)
    assert (seen["holders"], seen["waiting"]) == ([], [])
    listed = api.get(GROUPS, params={"search": key}).json()
    assert (listed["groups"], listed["total"]) == ([changed.json()], 1)


def test_a_group_is_paused_and_resumed(api: httpx.Client, key: str) -> None:
    api.put(f"{GROUPS}/{key}", json={})
    paused = api.post(f"{GROUPS}/{key}/pause").json()
    assert paused["is_paused"] is True
    assert paused["paused_at"] is not None
    assert api.post(f"{GROUPS}/{key}/resume").json()["is_paused"] is False


@pytest.mark.parametrize("key", ["host:example.com/a b?c#d%", "a/pause", "ü/☃"])
def test_any_key_can_be_asked_for(api: httpx.Client, key: str) -> None:
    place = f"{GROUPS}/{quote(key, safe='')}"
    assert api.put(place, json={"max_running": 1}).json()["key"] == key
    assert api.get(place).json()["group"]["key"] == key
    assert api.post(f"{place}/pause").json()["is_paused"] is True


@pytest.mark.parametrize("way", ["GET", "pause", "resume"])
def test_a_group_that_is_not_there_is_404(api: httpx.Client, key: str, way: str) -> None:
    place = f"{GROUPS}/{key}"
    answer = api.get(place) if way == "GET" else api.post(f"{place}/{way}")
    assert_problem(answer, 404)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("max_running", value) for value in (0, -1, 2**31, 1.5, "2", True, [], {})],
        *[("rate", value) for value in ("", "x", "0/m", "1/0s", "1/99y", 7, "\x00", [], "9" * 99)],
        ("colour", "red"),
    ],
)
def test_bad_limits_are_refused_by_their_name(
    api: httpx.Client, key: str, field: str, value: object
) -> None:
    assert_refused(api.put(f"{GROUPS}/{key}", json={field: value}), field)
    assert_problem(api.get(f"{GROUPS}/{key}"), 404)


def test_a_key_that_is_too_long_is_refused(api: httpx.Client) -> None:
    assert_refused(api.put(f"{GROUPS}/{'x' * 201}", json={}), "key")


def test_the_first_job_makes_its_group_and_later_ones_are_warned(
    api: httpx.Client, key: str
) -> None:
    first = api.post(JOBS, json=LATER | {"group": key, "limits": {"max_running": 2}}).json()
    assert first["warnings"] == []
    for answer in (
        api.post(JOBS, json=LATER | {"group": key, "limits": {"max_running": 5}}),
        api.put(f"{JOBS}/named/{key}", json=LATER | {"group": key, "limits": {"max_running": 5}}),
        api.patch(f"{JOBS}/{first['id']}", json={"limits": {"max_running": 5}}),
    ):
        assert answer.status_code in (200, 201), answer.text
        [warning] = answer.json()["warnings"]
        assert "limits.max_running 5 is not used" in warning
    assert api.get(f"{GROUPS}/{key}").json()["group"]["max_running"] == 2
    assert api.post(JOBS, json=LATER | {"group": key}).json()["warnings"] == []


def test_a_job_that_names_no_group_is_in_none(api: httpx.Client) -> None:
    job = api.post(JOBS, json=LATER).json()
    assert (job["group"], job["limits"]) == (None, None)


def test_who_changed_a_group_is_in_the_audit(api: httpx.Client, address: str, key: str) -> None:
    api.put(f"{GROUPS}/{key}", json={"max_running": 2})
    with client_of(address, token_for(Role.ADMIN)) as admin:
        [entry, *_] = admin.get("/api/v1/audit", params={"actor": "tests"}).json()["entries"]
    assert (entry["action"], entry["after"]["group"]) == ("put_group", key)
    assert entry["request_id"]
