"""Balancing over the API: what is refused by its field, the forecast, the history of the score."""

from datetime import datetime, timedelta
from uuid import uuid4

import httpx2 as httpx
import pytest

from tests.support.serving import assert_problem, assert_refused

SCHEDULER = "/api/v1/scheduler"
FORECAST = f"{SCHEDULER}/forecast"
WEEK_OF_SLOTS = 7 * 96


@pytest.mark.parametrize("path", ["rebalance", "rebalance/preview"])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_moves", -1),
        ("max_moves", "10"),
        ("max_moves", 1.5),
        ("max_moves", 10**30),
        ("group", ""),
        ("group", 7),
        ("group", "\x00"),
        ("colour", "red"),
    ],
)
def test_bad_fields_are_refused_by_name(
    api: httpx.Client, path: str, field: str, value: object
) -> None:
    assert_refused(api.post(f"{SCHEDULER}/{path}", json={field: value}), field)


@pytest.mark.parametrize("path", ["rebalance", "rebalance/undo"])
@pytest.mark.parametrize("plan_id", ["", "x", 7, True, []])
def test_a_plan_id_must_be_one(api: httpx.Client, path: str, plan_id: object) -> None:
    assert_refused(api.post(f"{SCHEDULER}/{path}", json={"plan_id": plan_id}), "plan_id")


@pytest.mark.parametrize("more", [{"group": "shop"}, {"max_moves": 5}])
def test_a_plan_has_settled_its_group_and_its_budget(
    api: httpx.Client, more: dict[str, object]
) -> None:
    wanted = {"plan_id": str(uuid4())} | more
    assert_refused(api.post(f"{SCHEDULER}/rebalance", json=wanted), next(iter(more)))


def test_a_plan_that_nobody_made_is_not_there(api: httpx.Client) -> None:
    wanted = {"plan_id": str(uuid4())}
    assert_problem(api.post(f"{SCHEDULER}/rebalance", json=wanted), 404)
    assert_problem(api.get(f"{SCHEDULER}/rebalance/plans/{uuid4()}"), 404)


@pytest.mark.parametrize("body", [None, {}, {"group": None, "max_moves": None}])
def test_a_body_may_be_left_out(api: httpx.Client, body: object) -> None:
    answer = api.post(f"{SCHEDULER}/rebalance/preview", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["group"] is None


def test_an_undo_of_another_plan_than_the_last_is_refused(api: httpx.Client) -> None:
    assert_problem(api.post(f"{SCHEDULER}/rebalance/undo", json={"plan_id": str(uuid4())}), 409)


def test_the_history_of_the_score_reaches_as_far_as_one_asks(api: httpx.Client) -> None:
    answer = api.get(f"{SCHEDULER}/score/history", params={"hours": 48})
    assert answer.status_code == 200
    assert answer.json()["threshold"] == 0.7
    for hours in (0, -1, "x", 10**9):
        refused = api.get(f"{SCHEDULER}/score/history", params={"hours": hours})
        assert_problem(refused, 422)


# --- the forecast -----------------------------------------------------------------------------


def test_the_forecast_is_a_week_of_slots(api: httpx.Client) -> None:
    shown = api.get(FORECAST).json()
    slots = shown["slots"]
    assert len(slots) == WEEK_OF_SLOTS
    first, second = (datetime.fromisoformat(slot["starts_at"]) for slot in slots[:2])
    assert second - first == timedelta(minutes=shown["slot_minutes"])
    assert (shown["workers"], shown["added_jobs"], shown["longest_wait_seconds"]) == (None, 0, 0)


def test_jobs_that_are_not_there_are_forecast_and_stay_away(api: httpx.Client) -> None:
    before = api.get(FORECAST).json()
    more = [{"schedule": "every 30m", "count": 96, "expected_duration": "10m"}]
    shown = api.post(FORECAST, json={"jobs": more}).json()
    assert shown["added_jobs"] == 96
    assert shown["total_jobs"] == before["total_jobs"] + 96
    added = [
        then["runs"] - now["runs"]
        for then, now in zip(shown["slots"], before["slots"], strict=True)
    ]
    assert set(added) == {48}, "96 half-hourly jobs are 48 runs in each quarter of an hour"
    inner = shown["slots"][10]["concurrency"] - before["slots"][10]["concurrency"]
    assert inner == pytest.approx(96 * 10 / 30, abs=0.5)
    assert api.get(FORECAST).json()["total_jobs"] == before["total_jobs"]


def test_with_too_few_workers_runs_wait(api: httpx.Client) -> None:
    more = [{"schedule": "every 1h", "count": 12, "expected_duration": "10m"}]
    enough = api.post(FORECAST, json={"jobs": more, "workers": 50}).json()
    scarce = api.post(FORECAST, json={"jobs": more, "workers": 1}).json()
    assert (enough["longest_wait_seconds"], enough["workers"]) == (0, 50)
    waits = [slot["waiting_seconds"] for slot in scarce["slots"]]
    assert waits[-1] > waits[len(waits) // 2] > 3600, "two hours of work an hour pile up"


def test_pinned_jobs_are_forecast_where_they_are_pinned(api: httpx.Client) -> None:
    more = [{"schedule": "daily 03:30", "count": 50}]
    before = api.get(FORECAST).json()["slots"]
    after = api.post(FORECAST, json={"jobs": more}).json()["slots"]
    full = [
        then["starts_at"][11:16]
        for then, now in zip(after, before, strict=True)
        if then["runs"] - now["runs"] == 50
    ]
    assert full == ["03:30"] * 7


@pytest.mark.parametrize(
    ("job", "field"),
    [
        ({"schedule": "sometimes"}, "schedule"),
        ({"schedule": "now"}, "schedule"),
        ({"schedule": "every 30m", "count": 0}, "count"),
        ({"schedule": "every 30m", "count": 10_001}, "count"),
        ({"schedule": "every 30m", "expected_duration": "long"}, "expected_duration"),
        ({"schedule": "every 30m", "expected_duration": "2d"}, "expected_duration"),
        ({"schedule": "every 30m", "window": "25:00-26:00"}, "window"),
        ({"schedule": "every 30m", "colour": "red"}, "colour"),
        ({"count": 3}, "schedule"),
    ],
)
def test_jobs_to_wonder_about_are_checked_like_others(
    api: httpx.Client, job: dict[str, object], field: str
) -> None:
    answer = api.post(FORECAST, json={"jobs": [{"schedule": "every 1h"}, job]})
    [error, *_] = assert_problem(answer, 422)["errors"]  # type: ignore[misc]
    assert error["field"].startswith((f"jobs.1.{field}", f"jobs[1].{field}"))


def test_all_of_them_together_have_a_bound(api: httpx.Client) -> None:
    jobs = [{"schedule": "every 1h", "count": 6_000}] * 2
    assert_refused(api.post(FORECAST, json={"jobs": jobs}), "jobs")
    for workers in (0, -1, "x"):
        assert_problem(api.get(FORECAST, params={"workers": workers}), 422)
