"""Dead letters of the registry: kept, found, acknowledged, and run again."""

from datetime import timedelta

import pytest

from tests.contracts.interval_jobs.client import instant
from tests.contracts.registry.client import JOBS, LETTERS, Client
from tests.support.databases import Clock
from tests.support.serving import assert_problem, assert_refused

UNKNOWN = f"{LETTERS}/65626561-7400-8000-8000-7fffffffffff"


async def test_a_job_without_attempts_left_goes_to_the_dead_letters_once(
    api: Client, clock: Clock
) -> None:
    payload = {"fails": 99, "path": "/mnt/a"}
    job = await api.register("dead", "every 1h", max_attempts=2, payload=payload)
    await api.execute(job)
    assert await api.letters(job_name="dead") == []
    await clock.advance(seconds=2)
    last = await api.ended(job["id"], 2)
    [letter] = await api.letters(job_id=job["id"])
    assert (letter["id"], letter["job_id"]) == (last["id"], job["id"])
    assert (letter["job_name"], letter["kind"], letter["attempts"]) == ("dead", "work", 2)
    assert (letter["payload"], letter["last_error"]) == (payload, last["error_message"])
    assert letter["signature"] == "ConnectionError: no answer from <text> after <n> s"
    assert instant(letter["failed_at"]) == clock.now
    await clock.advance(minutes=10)
    assert len(await api.executions(job["id"])) == 2, "no loop of retries without end"


async def test_a_letter_shows_the_runs_that_failed(api: Client) -> None:
    letter = await api.buried("shown")
    shown = await api.fetch(f"{LETTERS}/{letter['id']}")
    [run] = shown["executions"]
    assert (run["id"], run["error_message"]) == (letter["id"], letter["last_error"])
    assert {name: shown[name] for name in letter} == letter


async def test_after_the_dead_letter_the_schedule_goes_on(api: Client, clock: Clock) -> None:
    letter = await api.buried("goes on")
    job = await api.job(letter["job_id"])
    assert job["status"] == "failed"
    assert clock.now < instant(job["next_run_at"]) <= clock.now + timedelta(hours=1)


async def test_a_letter_is_acknowledged_explicitly_and_once(api: Client) -> None:
    letter = await api.buried("seen")
    place = f"{LETTERS}/{letter['id']}/acknowledge"
    assert (letter["acknowledged"], letter["acknowledged_at"]) == (False, None)
    seen = await api.send(place, {"note": "the network", "owner": "ops"})
    assert (seen["acknowledged"], seen["state"]) == (True, "acknowledged")
    assert (seen["acknowledged_by"], seen["note"], seen["owner"]) == (
        *("tests", "the network", "ops"),
    )
    assert seen["acknowledged_at"] is not None
    refused = assert_problem(await api.http.post(place), 409)
    assert "acknowledged by tests" in str(refused["error"])
    assert seen["allowed_actions"] == ["requeue", "discard"]


async def test_those_that_are_not_acknowledged_are_the_unresolved_ones(api: Client) -> None:
    letter = await api.buried("unresolved")
    unresolved = await api.letters(state="open", limit=250)
    assert letter["id"] in [each["id"] for each in unresolved]
    assert not [each for each in unresolved if each["acknowledged"]]
    everyone = [each["acknowledged"] for each in await api.letters(limit=250)]
    assert everyone == sorted(everyone), "they come first"


async def test_letters_are_acknowledged_by_the_name_of_their_job(api: Client, clock: Clock) -> None:
    first = await api.buried("by name")
    await api.execute({"id": first["job_id"]}, 2)
    body = {"action": "acknowledge", "filter": {"job_name": "by name"}}
    dry = await api.send(f"{LETTERS}/actions", body | {"dry_run": True})
    assert (dry["changed"], dry["dry_run"], first["id"] in dry["ids"]) == (2, True, True)
    assert len(await api.letters(job_name="by name", state="open")) == 2
    done = await api.send(f"{LETTERS}/actions", body)
    assert (done["changed"], done["refused"]) == (2, 0)
    assert await api.letters(job_name="by name", state="open") == []
    again = await api.http.post(f"{LETTERS}/actions", json=body)
    assert "none was changed" in str(assert_problem(again, 409)["error"])


async def test_a_letter_is_requeued_and_its_job_runs_again(api: Client) -> None:
    letter = await api.buried("once more")
    done = await api.send(f"{LETTERS}/{letter['id']}/requeue", status=202)
    assert (done["state"], done["requeued_as"]) == ("requeued", letter["job_id"])
    assert (await api.ended(letter["job_id"], 2))["status"] == "failed"
    newest, oldest = await api.letters(job_name="once more")
    assert (newest["state"], oldest["state"]) == ("open", "requeued")
    refused = await api.http.post(f"{LETTERS}/{letter['id']}/discard")
    assert "requeued by tests" in str(assert_problem(refused, 409)["error"])


async def test_a_letter_is_requeued_with_an_edited_payload(api: Client) -> None:
    letter = await api.buried("mended")
    body = {"payload": {"fails": 0}, "note": "works without"}
    done = await api.send(f"{LETTERS}/{letter['id']}/requeue", body, status=202)
    assert done["requeued_as"] != letter["job_id"]
    assert (await api.ended(done["requeued_as"]))["status"] == "completed"
    assert (await api.job(letter["job_id"]))["payload"] == letter["payload"]


async def test_a_letter_of_a_deleted_job_runs_again_by_a_job_of_its_own(api: Client) -> None:
    letter = await api.buried("deleted")
    await api.http.delete(f"{JOBS}/{letter['job_id']}")
    done = await api.send(f"{LETTERS}/{letter['id']}/requeue", status=202)
    assert done["requeued_as"] != letter["job_id"]
    made = await api.job(done["requeued_as"])
    assert (made["payload"], made["kind"], made["name"]) == (letter["payload"], "work", None)
    assert (await api.get(f"{JOBS}/{letter['job_id']}")).status_code == 404


async def test_a_letter_is_discarded(api: Client) -> None:
    letter = await api.buried("discarded")
    gone = await api.send(f"{LETTERS}/{letter['id']}/discard", {"note": "of no use"})
    assert (gone["state"], gone["acknowledged"], gone["ended_by"]) == ("discarded", True, "tests")
    assert gone["allowed_actions"] == []


@pytest.mark.parametrize(("action", "state"), [("requeue", "requeued"), ("discard", "discarded")])
async def test_letters_that_were_acknowledged_are_still_seen_to_all_at_once(
    api: Client, action: str, state: str
) -> None:
    letter = await api.buried(f"to {action}")
    await api.send(f"{LETTERS}/{letter['id']}/acknowledge", {"owner": action})
    wish = {"action": action, "filter": {"owner": action, "state": ["open", "acknowledged"]}}
    dry = await api.send(f"{LETTERS}/actions", wish | {"dry_run": True})
    assert (dry["changed"], dry["dry_run"]) == (1, True)
    assert (await api.fetch(f"{LETTERS}/{letter['id']}"))["state"] == "acknowledged"
    assert (await api.send(f"{LETTERS}/actions", wish))["changed"] == 1
    [seen] = await api.letters(owner=action)
    assert (seen["id"], seen["state"], seen["ended_by"]) == (letter["id"], state, "tests")
    if action == "requeue":
        await api.ended(letter["job_id"], 2)


async def test_letters_are_grouped_by_their_error(api: Client) -> None:
    await api.buried("group a")
    await api.buried("group b")
    page = await api.fetch(f"{LETTERS}/groups", state="open")
    [group] = page["groups"]
    assert group["signature"] == "ConnectionError: no answer from <text> after <n> s"
    found = await api.letters(signature=group["signature"], state="open", limit=250)
    assert group["count"] == group["unacknowledged"] == len(found)
    assert group["newest_id"] == max(each["id"] for each in found)
    assert instant(group["first_at"]) <= instant(group["last_at"])


@pytest.mark.parametrize("action", ["", "/acknowledge", "/requeue", "/discard"])
async def test_a_letter_that_is_not_there_is_404(api: Client, action: str) -> None:
    for place in (UNKNOWN, f"{LETTERS}/01890000-0000-7000-8000-000000000000"):
        answer = await (api.http.post(f"{place}{action}") if action else api.http.get(place))
        assert "no dead letter" in str(assert_problem(answer, 404)["error"])


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "action"),
        ({"action": "burn", "filter": {"all": True}}, "action"),
        ({"action": "discard"}, "filter"),
        ({"action": "discard", "filter": {}}, "filter"),
        ({"action": "discard", "filter": {"all": True, "kind": "work"}}, "filter"),
        ({"action": "discard", "filter": {"colour": "red"}}, "filter.colour"),
        ({"action": "discard", "filter": {"ids": []}}, "filter.ids"),
        ({"action": "discard", "filter": {"state": ["lost"]}}, "filter.state"),
        ({"action": "discard", "filter": {"job_name": "\x00"}}, "filter.job_name"),
        ({"action": "discard", "filter": {"all": True}, "dry_run": 1}, "dry_run"),
        ({"action": "discard", "filter": {"all": True}, "note": ""}, "note"),
        ({"action": "discard", "filter": {"all": True}, "owner": "x" * 201}, "owner"),
        ({"action": "discard", "filter": {"all": True}, "payload": 1}, "payload"),
    ],
)
async def test_a_bad_wish_is_refused_by_its_field(
    api: Client, body: dict[str, object], field: str
) -> None:
    assert_refused(await api.http.post(f"{LETTERS}/actions", json=body), field)


async def test_a_bad_payload_is_refused_and_the_letter_stays(api: Client) -> None:
    letter = await api.buried("stays")
    answer = await api.http.post(
        f"{LETTERS}/{letter['id']}/requeue", json={"payload": {"a": "\x00"}}
    )
    assert_refused(answer, "payload")
    assert (await api.fetch(f"{LETTERS}/{letter['id']}"))["state"] == "open"
