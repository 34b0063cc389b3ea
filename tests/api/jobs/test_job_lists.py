"""Lists of jobs and what is done to all that match: the right ones, and no others."""

import secrets
from collections.abc import Iterator

import httpx2 as httpx
import pytest

from evenbeat.core.ops.access import Role
from tests.support.serving import assert_problem, assert_refused, client_of, token_for

JOBS = "/api/v1/jobs"
ACTIONS = f"{JOBS}/actions"


@pytest.fixture(scope="module")
def admin(address: str) -> Iterator[httpx.Client]:
    with client_of(address, token_for(Role.ADMIN)) as client:
        yield client


@pytest.fixture
def tag() -> str:
    return secrets.token_hex(8)


@pytest.fixture
def ids(api: httpx.Client, tag: str) -> list[str]:
    """Seven jobs under one tag, oldest first."""
    jobs = [{"kind": "echo", "schedule": "every 1d", "tags": [tag]}] * 7
    return api.post(f"{JOBS}/batch", json={"jobs": jobs}).json()["ids"]


def found(api: httpx.Client, **query: object) -> list[str]:
    answer = api.get(JOBS, params=query)
    assert answer.status_code == 200, answer.text
    return [job["id"] for job in answer.json()["jobs"]]


class TestPages:
    def test_cursors_give_every_job_once_newest_first(
        self, api: httpx.Client, tag: str, ids: list[str]
    ) -> None:
        seen, cursor = [], None
        while cursor or not seen:
            page = api.get(
                JOBS, params={"tag": tag, "limit": 3} | ({"cursor": cursor} if cursor else {})
            )
            body = page.json()
            assert len(body["jobs"]) <= 3
            seen += [job["id"] for job in body["jobs"]]
            cursor = body["next_cursor"]
        assert seen == ids[::-1]

    def test_a_job_made_meanwhile_moves_no_page(
        self, api: httpx.Client, tag: str, ids: list[str]
    ) -> None:
        first = api.get(JOBS, params={"tag": tag, "limit": 3}).json()
        api.post(JOBS, json={"kind": "echo", "schedule": "every 1d", "tags": [tag]})
        following = found(api, tag=tag, limit=10, cursor=first["next_cursor"])
        assert following == ids[3::-1]

    def test_offsets_give_the_same_pages(self, api: httpx.Client, tag: str, ids: list[str]) -> None:
        pages = [found(api, tag=tag, limit=3, offset=offset) for offset in (0, 3, 6, 9)]
        assert [len(page) for page in pages] == [3, 3, 1, 0]
        assert [job for page in pages for job in page] == ids[::-1]

    @pytest.mark.parametrize("more", [{"sort_by": "name"}, {"sort_order": "asc"}, {"offset": 1}])
    def test_a_cursor_goes_with_no_other_order(
        self, api: httpx.Client, tag: str, ids: list[str], more: dict
    ) -> None:
        cursor = api.get(JOBS, params={"tag": tag, "limit": 1}).json()["next_cursor"]
        assert_refused(api.get(JOBS, params={"cursor": cursor} | more), "cursor")

    def test_a_search_takes_its_signs_as_they_are(self, api: httpx.Client, tag: str) -> None:
        body = {"kind": "echo", "schedule": "every 1d"}
        names = {sign: f"{tag} 100{sign} sure" for sign in "%_\\"}
        made = {sign: api.post(JOBS, json=body | {"name": name}) for sign, name in names.items()}
        for sign, answer in made.items():
            assert found(api, search=f"{tag} 100{sign} SURE") == [answer.json()["id"]]


class TestBulk:
    def test_a_dry_run_says_what_would_be_done_and_does_nothing(
        self, api: httpx.Client, tag: str, ids: list[str]
    ) -> None:
        body = {"action": "pause", "filter": {"tag": tag}, "dry_run": True}
        tally = api.post(ACTIONS, json=body).json()
        assert (tally["changed"], tally["dry_run"], tally["refused"]) == (7, True, 0)
        assert sorted(tally["ids"]) == sorted(ids)
        assert found(api, tag=tag, status="paused") == []

    def test_all_that_match_are_changed_and_no_other(
        self, api: httpx.Client, tag: str, ids: list[str]
    ) -> None:
        other = api.post(JOBS, json={"kind": "echo", "schedule": "every 1d"}).json()["id"]
        tally = api.post(ACTIONS, json={"action": "pause", "filter": {"tag": tag}}).json()
        assert tally["changed"] == 7
        assert found(api, tag=tag, status="paused") == ids[::-1]
        assert api.get(f"{JOBS}/{other}").json()["status"] == "scheduled"

    def test_one_that_refuses_stops_it_for_all_unless_it_is_to_be_skipped(
        self, api: httpx.Client, tag: str, ids: list[str]
    ) -> None:
        api.post(f"{JOBS}/{ids[0]}/pause")
        body = {"action": "pause", "filter": {"ids": ids}}
        assert ids[0] in str(assert_problem(api.post(ACTIONS, json=body), 409)["error"])
        assert found(api, tag=tag, status="paused") == [ids[0]]
        tally = api.post(ACTIONS, json=body | {"skip_refused": True}).json()
        assert (tally["changed"], tally["refused"]) == (6, 1)
        assert [each["id"] for each in tally["refusals"]] == [ids[0]]
        assert len(found(api, tag=tag, status="paused")) == 7

    def test_a_filter_that_says_nothing_is_not_every_job(
        self, api: httpx.Client, ids: list[str]
    ) -> None:
        for nothing in ({}, {"all": False}, {"status": None}, {"labels": {}}):
            answer = api.post(ACTIONS, json={"action": "delete", "filter": nothing})
            assert "all: true" in assert_refused(answer, "filter")
        both = {"action": "delete", "filter": {"all": True, "ids": ids}}
        assert_refused(api.post(ACTIONS, json=both), "filter")
        every = {"action": "pause", "filter": {"all": True}, "dry_run": True}
        total = api.get(JOBS, params={"limit": 1}).json()["total"]
        tally = api.post(ACTIONS, json=every).json()
        assert tally["changed"] + tally["refused"] == total >= 7

    def test_release_is_for_administrators_in_bulk_as_well(
        self, api: httpx.Client, admin: httpx.Client, ids: list[str]
    ) -> None:
        body = {"action": "release", "filter": {"ids": ids}, "skip_refused": True}
        assert_problem(api.post(ACTIONS, json=body), 403)
        assert admin.post(ACTIONS, json=body).json()["refused"] == 7
