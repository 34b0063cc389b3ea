"""Changes over HTTP: only of what the client saw, kept as versions, and done once."""

import secrets

import httpx2 as httpx
import pytest

from tests.support.serving import assert_problem, assert_refused

JOBS = "/api/v1/jobs"
JOB = {"kind": "echo", "schedule": "every 1d", "payload": {"n": 1}}


@pytest.fixture
def place(api: httpx.Client) -> str:
    return api.post(JOBS, json=JOB).headers["location"]


class TestConditions:
    def test_a_change_of_the_version_that_was_seen_is_made(
        self, api: httpx.Client, place: str
    ) -> None:
        tag = api.get(place).headers["etag"]
        answer = api.patch(place, json={"priority": 7}, headers={"if-match": tag})
        assert (answer.status_code, answer.json()["priority"]) == (200, 7)
        assert answer.headers["etag"].startswith('"2-')

    @pytest.mark.parametrize("stale", ['"1-0"', '"7"', '"x"', 'W/"2"', "garbage"])
    def test_a_change_of_another_version_is_412_and_not_made(
        self, api: httpx.Client, place: str, stale: str
    ) -> None:
        api.patch(place, json={"priority": 7})
        answer = api.patch(place, json={"priority": 8}, headers={"if-match": stale})
        assert "version 2" in str(assert_problem(answer, 412)["error"])
        assert api.get(place).json()["priority"] == 7

    def test_of_two_clients_that_saw_the_same_version_one_is_refused(
        self, api: httpx.Client, place: str
    ) -> None:
        seen = {"if-match": api.get(place).headers["etag"]}
        codes = [api.put(place, json={"priority": n}, headers=seen).status_code for n in (3, 4)]
        assert codes == [200, 412]
        assert api.get(place).json()["priority"] == 3

    def test_a_changed_job_is_sent_again_to_a_client_with_the_old_etag(
        self, api: httpx.Client, place: str
    ) -> None:
        known = {"if-none-match": api.get(place).headers["etag"]}
        assert api.get(place, headers=known).status_code == 304
        api.post(f"{place}/pause")
        assert api.get(place, headers=known).status_code == 200

    def test_the_whole_job_sent_back_is_no_change(self, api: httpx.Client, place: str) -> None:
        for method, path in (("GET", place), ("POST", f"{place}/pause"), ("GET", place)):
            answer = api.put(place, json=api.request(method, path).json())
            assert answer.status_code == 200, answer.text
            assert answer.json()["version"] == 1

    @pytest.mark.parametrize(("old", "new"), [(1, True), (0, False), ([1], [True]), (1, 2)])
    def test_true_is_not_one(self, api: httpx.Client, old: object, new: object) -> None:
        place = api.post(JOBS, json=JOB | {"payload": {"n": old}}).headers["location"]
        changed = api.patch(place, json={"payload": {"n": new}}).json()
        assert (changed["version"], repr(changed["payload"]["n"])) == (2, repr(new))

    @pytest.mark.parametrize("value", [0, 1, "", "false", "yes", [], {}])
    def test_a_switch_is_true_or_false_and_nothing_like_it(
        self, api: httpx.Client, place: str, value: object
    ) -> None:
        assert_refused(api.patch(place, json={"schedule_enabled": value}), "schedule_enabled")
        assert api.get(place).json()["status"] == "scheduled"


class TestSwitchAndEdit:
    """`schedule_enabled` beside other fields: one request, one transaction, one version."""

    def test_a_switch_that_is_refused_leaves_the_definition_as_it_was(
        self, api: httpx.Client, place: str
    ) -> None:
        api.post(f"{place}/cancel")
        before = api.get(place).json()
        body = {"priority": 9, "schedule": "every 2h", "schedule_enabled": False}
        assert_problem(api.patch(place, json=body), 409)
        assert api.get(place).json() == before
        assert [each["version"] for each in api.get(f"{place}/versions").json()["versions"]] == [1]

    @pytest.mark.parametrize("method", ["PUT", "PATCH"])
    def test_a_job_is_edited_and_disabled_then_edited_and_enabled(
        self, api: httpx.Client, place: str, method: str
    ) -> None:
        disabled = api.request(method, place, json={"priority": 9, "schedule_enabled": False})
        assert disabled.status_code == 200, disabled.text
        assert (disabled.json()["priority"], disabled.json()["state"]) == (9, "disabled")
        assert disabled.json()["version"] == 2
        enabled = api.request(method, place, json={"priority": 3, "schedule_enabled": True}).json()
        assert (enabled["priority"], enabled["state"], enabled["version"]) == (3, "scheduled", 3)

    def test_a_change_of_another_version_does_not_switch_either(
        self, api: httpx.Client, place: str
    ) -> None:
        body = {"priority": 9, "schedule_enabled": False}
        assert_problem(api.patch(place, json=body, headers={"if-match": '"7"'}), 412)
        assert api.get(place).json()["state"] == "scheduled"


class TestVersions:
    def test_every_definition_is_kept_the_one_in_force_first(
        self, api: httpx.Client, place: str
    ) -> None:
        for number in (2, 3):
            api.patch(place, json={"payload": {"n": number}})
        versions = api.get(f"{place}/versions").json()["versions"]
        assert [each["version"] for each in versions] == [3, 2, 1]
        assert [each["definition"]["payload"]["n"] for each in versions] == [3, 2, 1]
        assert [each["replaced_by"] for each in versions] == [None, "tests", "tests"]
        assert versions[0]["replaced_at"] is None

    def test_a_restored_version_is_a_new_one(self, api: httpx.Client, place: str) -> None:
        api.patch(place, json={"payload": {"n": 2}, "schedule": "every 2d", "priority": 9})
        restored = api.post(f"{place}/restore", json={"version": 1})
        job = restored.json()
        assert (job["version"], job["payload"], job["priority"]) == (3, {"n": 1}, 0)
        assert job["schedule"]["every"] == "1d"
        assert restored.headers["etag"].startswith('"3-')

    def test_a_version_that_never_was_is_404(self, api: httpx.Client, place: str) -> None:
        answer = api.post(f"{place}/restore", json={"version": 2})
        assert "version 2" in str(assert_problem(answer, 404)["error"])


class TestByName:
    def test_it_is_made_then_left_then_changed(self, api: httpx.Client) -> None:
        place = f"{JOBS}/named/put-{secrets.token_hex(4)}"
        made, left = (api.put(place, json=JOB) for _ in range(2))
        changed = api.put(place, json=JOB | {"priority": 5})
        assert [each.status_code for each in (made, left, changed)] == [201, 200, 200]
        assert [each.json()["version"] for each in (made, left, changed)] == [1, 1, 2]
        assert made.headers["location"] == changed.headers["location"]
        assert made.json()["next_run_at"] == changed.json()["next_run_at"]

    def test_another_name_in_the_body_is_refused(self, api: httpx.Client) -> None:
        assert_refused(api.put(f"{JOBS}/named/one", json=JOB | {"name": "other"}), "name")
        assert api.get(JOBS, params={"search": "other"}).json()["total"] == 0


class TestOnce:
    @pytest.fixture
    def key(self) -> dict[str, str]:
        return {"idempotency-key": secrets.token_hex(8), "x-request-id": "mine"}

    def test_an_action_sent_twice_is_done_once(
        self, api: httpx.Client, place: str, key: dict
    ) -> None:
        first, second = (api.post(f"{place}/cancel", headers=key) for _ in range(2))
        assert (first.status_code, second.status_code) == (200, 200)
        assert first.content == second.content
        assert second.headers["idempotent-replayed"] == "true"
        assert first.headers["x-request-id"] == "mine"
        assert_problem(api.post(f"{place}/pause"), 409)

    def test_a_batch_sent_twice_is_made_once(self, api: httpx.Client, key: dict) -> None:
        before = api.get(JOBS, params={"limit": 1}).json()["total"]
        body = {"jobs": [JOB] * 3}
        first, second = (api.post(f"{JOBS}/batch", json=body, headers=key) for _ in range(2))
        assert first.json() == second.json()
        assert api.get(JOBS, params={"limit": 1}).json()["total"] == before + 3

    def test_a_refused_action_leaves_the_key_free_and_says_what_is_allowed(
        self, api: httpx.Client, place: str, key: dict
    ) -> None:
        refused = assert_problem(api.post(f"{place}/resume", headers=key), 409)
        allowed: list[str] = refused["allowed_actions"]  # type: ignore[assignment]
        assert "pause" in allowed
        assert "resume" not in allowed
        api.post(f"{place}/pause")
        assert api.post(f"{place}/resume", headers=key).status_code == 200


def test_a_deduplicated_job_is_the_one_there_is(api: httpx.Client) -> None:
    body = JOB | {"dedupe_key": secrets.token_hex(8)}
    first, second = (api.post(JOBS, json=body) for _ in range(2))
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.headers["location"] == second.headers["location"]


def test_a_batch_is_all_or_none(api: httpx.Client) -> None:
    name = secrets.token_hex(8)
    one = JOB | {"name": name}
    assert_refused(api.post(f"{JOBS}/batch", json={"jobs": [one, one]}), "jobs[1].name")
    assert api.get(JOBS, params={"search": name}).json()["total"] == 0
    made = api.post(f"{JOBS}/batch", json={"jobs": [one, JOB]})
    assert made.status_code == 201
    assert made.json()["created"] == len(made.json()["ids"]) == 2
    assert api.get(f"{JOBS}/{made.json()['ids'][0]}").json()["name"] == name


def test_a_deleted_job_is_gone_and_its_name_is_free(api: httpx.Client) -> None:
    body = JOB | {"name": secrets.token_hex(8)}
    place = api.post(JOBS, json=body).headers["location"]
    assert api.delete(place).json() == {"message": "Job deleted successfully"}
    assert_problem(api.get(place), 404)
    assert_problem(api.delete(place), 404)
    assert api.post(JOBS, json=body).status_code == 201
