"""Templates, previews, nodes, the audit and the maintenance switch, over HTTP."""

import asyncio
import secrets
from collections.abc import Iterator
from datetime import datetime, timedelta

import httpx2 as httpx
import pytest

from evenbeat.core.ops.access import Role
from evenbeat.store.database.pool import Database
from evenbeat.store.ops import nodes
from tests.support.serving import assert_problem, assert_refused, client_of, token_for

JOBS = "/api/v1/jobs"
JOB = {"kind": "echo", "schedule": "every 1d"}
TEMPLATES = "/api/v1/templates"
TEMPLATE = {
    "description": "greets",
    "job": {"kind": "echo", "payload": {"to": "${who}", "text": "hi ${who}"}, "priority": "${p}"},
    "parameters": {"who": None, "p": 3},
}


@pytest.fixture(scope="module")
def admin(address: str) -> Iterator[httpx.Client]:
    with client_of(address, token_for(Role.ADMIN)) as client:
        yield client


class TestTemplates:
    @pytest.fixture
    def place(self, api: httpx.Client) -> str:
        place = f"{TEMPLATES}/greet-{secrets.token_hex(4)}"
        assert api.put(place, json=TEMPLATE).status_code == 200
        return place

    def test_a_template_comes_back_as_it_was_sent(self, api: httpx.Client, place: str) -> None:
        shown = api.get(place)
        assert {name: shown.json()[name] for name in TEMPLATE} == TEMPLATE
        assert shown.headers["etag"].startswith('"1-')
        tag = shown.headers["etag"]
        assert api.get(place, headers={"if-none-match": tag}).status_code == 304
        listed = api.get(TEMPLATES).json()["templates"]
        assert shown.json() in listed

    def test_a_job_of_it_has_its_blanks_filled_in(self, api: httpx.Client, place: str) -> None:
        fill = {"parameters": {"who": "Ada"}, "job": {"schedule": "every 1d"}}
        made = api.post(f"{place}/jobs", json=fill)
        job = made.json()
        assert made.status_code == 201
        assert made.headers["location"] == f"{JOBS}/{job['id']}"
        assert (job["payload"], job["priority"]) == ({"to": "Ada", "text": "hi Ada"}, 3)
        assert job["schedule"]["every"] == "1d"

    def test_what_must_be_given_and_what_comes_of_it_is_checked(
        self, api: httpx.Client, place: str
    ) -> None:
        assert_refused(api.post(f"{place}/jobs", json={}), "parameters.who")
        bad = {"parameters": {"who": "x", "p": 101}}
        assert_refused(api.post(f"{place}/jobs", json=bad), "job.priority")

    def test_a_job_stays_when_its_template_goes(self, api: httpx.Client, place: str) -> None:
        job = api.post(f"{place}/jobs", json={"parameters": {"who": "x"}}).headers["location"]
        assert api.put(place, json=TEMPLATE | {"description": "other"}).json()["version"] == 2
        assert api.delete(place).status_code == 204
        assert_problem(api.get(place), 404)
        assert_problem(api.delete(place), 404)
        assert_problem(api.post(f"{place}/jobs", json={}), 404)
        assert api.get(job).status_code == 200


class TestPreview:
    def test_it_says_when_in_words_and_in_instants(self, api: httpx.Client) -> None:
        body = {"schedule": "daily 02:30 Europe/Berlin", "count": 3}
        shown = api.post("/api/v1/schedule/preview", json=body).json()
        beats = [datetime.fromisoformat(beat) for beat in shown["beats"]]
        assert (shown["kind"], shown["zone"], len(beats)) == ("daily", "Europe/Berlin", 3)
        assert beats == sorted(beats)
        assert "02:30" in shown["words"]
        assert "Clocks in Europe/Berlin go" in shown["remark"]

    def test_a_job_of_the_schedule_runs_when_the_preview_said(self, api: httpx.Client) -> None:
        body = {"schedule": "H H * * *", "name": secrets.token_hex(8), "count": 1}
        [beat] = api.post("/api/v1/schedule/preview", json=body).json()["beats"]
        del body["count"]
        assert api.post(JOBS, json=body | {"kind": "echo"}).json()["next_run_at"] == beat

    def test_it_makes_nothing(self, api: httpx.Client) -> None:
        before = api.get(JOBS, params={"limit": 1}).json()["total"]
        api.post("/api/v1/schedule/preview", json={"schedule": "every 1h"})
        assert api.get(JOBS, params={"limit": 1}).json()["total"] == before


class TestNodes:
    @pytest.fixture
    def node(self, database_url: str) -> int:
        async def join() -> int:
            database = Database(database_url)
            await database.open()
            try:
                return await nodes.join_node(
                    *(database, "host:1"),
                    kinds=["echo"],
                    labels=["eu"],
                    lease_duration=timedelta(hours=1),
                )
            finally:
                await database.close()

        return asyncio.run(join())

    def test_a_node_is_drained_and_given_work_again(self, admin: httpx.Client, node: int) -> None:
        def shown() -> dict:
            listed = admin.get("/api/v1/nodes").json()["nodes"]
            return next(each for each in listed if each["id"] == node)

        assert (shown()["name"], shown()["labels"]) == ("host:1", ["eu"])
        assert shown()["draining_since"] is None
        drained = admin.post(f"/api/v1/nodes/{node}/drain").json()
        assert drained == shown()
        assert drained["draining_since"]
        assert admin.post(f"/api/v1/nodes/{node}/undrain").json()["draining_since"] is None

    def test_an_unknown_node_is_404(self, admin: httpx.Client) -> None:
        for action in ("drain", "undrain"):
            answer = admin.post(f"/api/v1/nodes/2147483647/{action}")
            assert "2147483647" in str(assert_problem(answer, 404)["error"])


class TestAudit:
    def test_it_says_who_did_what_in_which_request_newest_first(
        self, api: httpx.Client, admin: httpx.Client
    ) -> None:
        job = api.post(JOBS, json=JOB, headers={"x-request-id": "made"}).json()
        api.patch(f"{JOBS}/{job['id']}", json={"priority": 5}, headers={"x-request-id": "mended"})
        api.delete(f"{JOBS}/{job['id']}", headers={"x-request-id": "gone"})
        entries = admin.get("/api/v1/audit", params={"job_id": job["id"]}).json()["entries"]
        assert [each["request_id"] for each in entries] == ["gone", "mended", "made"]
        assert [each["action"] for each in entries] == ["delete", "edit", "add"]
        assert {each["actor"] for each in entries} == {"tests"}
        assert (entries[1]["before"]["priority"], entries[1]["after"]["priority"]) == (0, 5)

    def test_cursors_give_every_entry_once(self, api: httpx.Client, admin: httpx.Client) -> None:
        job = api.post(JOBS, json=JOB).json()["id"]
        for action in ("pause", "resume", "pause", "resume"):
            assert api.post(f"{JOBS}/{job}/{action}").status_code == 200
        query, seen = {"job_id": job, "limit": 2}, []
        while page := admin.get("/api/v1/audit", params=query).json():
            seen += [each["action"] for each in page["entries"]]
            if page["next_cursor"] is None:
                break
            query["cursor"] = page["next_cursor"]
        assert seen == ["resume", "pause", "resume", "pause", "add"]

    def test_a_refused_change_is_not_in_it(self, api: httpx.Client, admin: httpx.Client) -> None:
        job = api.post(JOBS, json=JOB).json()["id"]
        assert_problem(api.post(f"{JOBS}/{job}/resume"), 409)
        assert_refused(api.patch(f"{JOBS}/{job}", json={"priority": 101}), "priority")
        entries = admin.get("/api/v1/audit", params={"job_id": job}).json()["entries"]
        assert [each["action"] for each in entries] == ["add"]


def test_maintenance_says_who_and_why_until_it_ends(admin: httpx.Client) -> None:
    off = {"is_on": False, "since": None, "reason": None, "actor": None}
    place = "/api/v1/maintenance"
    assert admin.get(place).json() == off
    begun = admin.put(place, json={"reason": "moving"}).json()
    assert (begun["is_on"], begun["reason"], begun["actor"]) == (True, "moving", "tests")
    assert admin.get(place).json() == begun
    job = admin.post(JOBS, json=JOB).headers["location"]
    assert "moving" in admin.get(f"{job}/explain").json()["explanation"]
    assert admin.delete(place).json() == off
    assert admin.get(place).json() == off
    noted = admin.get("/api/v1/audit", params={"limit": 3}).json()["entries"]
    assert [each["action"] for each in noted] == ["maintenance off", "add", "maintenance on"]
