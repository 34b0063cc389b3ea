"""Jobs over HTTP: what was accepted is what is given back."""

import json
from datetime import datetime

import httpx2 as httpx
import pytest

from tests.support.serving import assert_problem

JOBS = "/api/v1/jobs"
# Far enough away for nothing to run while a test looks.
LATER = "once 2100-01-01T00:00:00Z"


def create(api: httpx.Client, **job: object) -> dict[str, object]:
    answer = api.post(JOBS, json={"kind": "echo", "schedule": LATER, **job})
    assert answer.status_code == 201, answer.text
    return answer.json()


@pytest.mark.parametrize(
    "payload",
    [
        *(
            True,
            False,
            0,
            -1,
            1.5,
            -0.001,
            1e-300,
            1.7e308,
            2**53 + 1,
            2**63 - 1,
            -(2**63) + 1,
        ),
        *(
            "",
            "text",
            "ÄÖÜ ß — “quoted”",
            "日本語",
            "👩‍👩‍👧‍👦",
            "e\u0301",
            "\u200b\u202e",
            "\x01\x1f\x7f",
        ),
        *('"; drop table evenbeat.job; --', "<script>alert(1)</script>", "\\u0000", "a\nb\r\tc"),
        *([], {}, [[]], [None], {"": ""}, {"a": None}, [1, "1", 1.0, True, None, {}, []]),
        {"nested": {"deep": [{"er": {"still": [1, 2, {"x": "y"}]}}]}},
        {"ключ": "значение", "a.b": 1, "a b": 2, "$": 3, "__proto__": {"x": 1}},
        {str(number): number for number in range(1_000)},
        json.loads("[" * 60 + "]" * 60),
    ],
    ids=lambda payload: repr(payload)[:30],
)
def test_any_json_value_is_a_payload_and_comes_back_unchanged(
    api: httpx.Client, payload: object
) -> None:
    job = create(api, payload=payload)
    assert job["payload"] == payload
    found = api.get(f"{JOBS}/{job['id']}").json()
    assert found["payload"] == payload
    assert json.dumps(found["payload"], sort_keys=True) == json.dumps(payload, sort_keys=True)


def test_a_job_is_found_where_its_location_says(api: httpx.Client) -> None:
    answer = api.post(JOBS, json={"kind": "echo", "schedule": LATER})
    assert answer.status_code == 201
    assert answer.headers["location"] == f"{JOBS}/{answer.json()['id']}"
    found = api.get(answer.headers["location"])
    assert found.status_code == 200
    assert found.json() == found.json() | answer.json()


def test_no_payload_and_null_are_an_empty_one(api: httpx.Client) -> None:
    assert create(api)["payload"] == create(api, payload=None)["payload"] == {}


def test_every_field_of_a_job_comes_back_as_it_was_sent(api: httpx.Client) -> None:
    sent = {
        "kind": "echo",
        "name": "Größe / “all” \\ fields",
        "payload": {"hello": "world"},
        "schedule": {"cron": "0 8 * * MON-FRI", "zone": "Europe/Berlin"},
        "priority": 100,
        "labels": {"team": "data", "ключ": "значение"},
        "max_attempts": 7,
        "timeout": 90,
    }
    answer = api.post(JOBS, json=sent)
    assert answer.status_code == 201
    found = api.get(f"{JOBS}/{answer.json()['id']}").json()
    assert {name: found[name] for name in sent} == sent


def test_a_job_that_says_only_its_kind_has_the_documented_defaults(api: httpx.Client) -> None:
    answer = api.post(JOBS, json={"kind": "echo"})
    assert answer.status_code == 201
    job = answer.json()
    expected = {
        "name": None,
        "payload": {},
        "schedule": {"once": job["next_run_at"]},
        "status": "pending",
        "priority": 0,
        "labels": {},
        "max_attempts": 4,
        "timeout": 3600,
        "completed_count": 0,
        "failed_count": 0,
        "version": 1,
    }
    assert {name: job[name] for name in expected} == expected
    assert job["next_run_at"] <= job["created_at"] == job["updated_at"]


@pytest.mark.parametrize(
    ("schedule", "shown"),
    [
        ("daily 06:00 Europe/Berlin", {"daily": "06:00", "zone": "Europe/Berlin"}),
        ("hourly :15", {"hourly": ":15"}),
        ("weekly sun 02:00", {"weekly": "sun 02:00", "zone": "UTC"}),
        ("@daily", {"cron": "@daily", "zone": "UTC"}),
        ("once 2100-01-01T01:00:00+01:00", {"once": "2100-01-01T00:00:00Z"}),
    ],
)
def test_a_schedule_may_be_a_text_and_is_shown_as_an_object_and_in_words(
    api: httpx.Client, schedule: str, shown: dict[str, object]
) -> None:
    job = create(api, schedule=schedule)
    assert job["schedule"] == shown | job["schedule"]  # type: ignore[operator]
    assert job["schedule_text"]
    again = create(api, schedule=job["schedule"])
    assert again["schedule"] == job["schedule"]


def test_a_recurring_job_is_scheduled_and_says_when_it_runs_next(api: httpx.Client) -> None:
    job = create(api, schedule="every 30m")
    assert job["status"] == "scheduled"
    born, due = (datetime.fromisoformat(str(job[name])) for name in ("created_at", "next_run_at"))
    assert 0 < (due - born).total_seconds() <= 1800


def test_the_name_of_a_job_chooses_its_h_and_always_the_same(api: httpx.Client) -> None:
    job = create(api, name="hashed", schedule="H H(0-7) * * *")
    assert job["schedule"] == {"cron": "H H(0-7) * * *", "zone": "UTC", "seed": "hashed"}
    again = create(api, schedule=job["schedule"])
    assert again["next_run_at"] == job["next_run_at"]
    others = {
        create(api, name=f"hashed {number}", schedule="H H(0-7) * * *")["next_run_at"]
        for number in range(10)
    }
    assert len(others) > 1


def test_an_h_with_neither_name_nor_seed_is_refused_by_its_field(api: httpx.Client) -> None:
    answer = api.post(JOBS, json={"kind": "echo", "schedule": "H * * * *"})
    assert_problem(answer, 422)
    assert answer.json()["errors"][0]["field"] == "schedule.seed"


@pytest.mark.parametrize("timeout", [90, "90s", "1m30s", "PT90S"])
def test_a_timeout_may_be_seconds_or_a_text(api: httpx.Client, timeout: object) -> None:
    assert create(api, timeout=timeout)["timeout"] == 90


def test_names_that_differ_in_case_are_two(api: httpx.Client) -> None:
    assert create(api, name="Report")["id"] != create(api, name="report")["id"]


def test_jobs_without_a_name_never_conflict(api: httpx.Client) -> None:
    assert create(api)["id"] != create(api)["id"]


def test_a_job_that_has_not_run_has_an_empty_history(api: httpx.Client) -> None:
    page = api.get(f"{JOBS}/{create(api)['id']}/executions").json()
    assert page == {"executions": [], "total": 0, "limit": 50, "offset": 0}


def test_the_page_asked_for_is_the_page_given(api: httpx.Client) -> None:
    path = f"{JOBS}/{create(api)['id']}/executions"
    page = api.get(path, params={"limit": 250, "offset": 1_000_000}).json()
    assert (page["limit"], page["offset"]) == (250, 1_000_000)


def test_an_id_is_read_in_any_case(api: httpx.Client) -> None:
    job = create(api)
    assert api.get(f"{JOBS}/{str(job['id']).upper()}").json()["id"] == job["id"]


def test_a_trailing_slash_is_another_path(api: httpx.Client) -> None:
    assert_problem(api.get(f"{JOBS}/{create(api)['id']}/"), 404)


def test_what_balancing_may_do_is_written_and_given_back(api: httpx.Client) -> None:
    wishes = {"within": "30m", "prefers": "22:00-06:00 Europe/Berlin", "balance": False}
    job = create(api, schedule="daily 06:00", **wishes)
    assert (job["within"], job["balance"], job["phase"]) == (1800.0, False, None)
    assert job["prefers"] == {
        "open": ["22:00-06:00"],
        "zone": "Europe/Berlin",
        "outside": "move",
    }
    assert api.put(f"{JOBS}/{job['id']}", json=job).json()["version"] == 1
    changed = api.patch(f"{JOBS}/{job['id']}", json={"within": None, "balance": True}).json()
    assert (changed["within"], changed["balance"], changed["version"]) == (None, True, 2)


@pytest.mark.parametrize("schedule", ["every 1h", "now"])
def test_slack_is_for_schedules_that_name_their_instants(api: httpx.Client, schedule: str) -> None:
    answer = api.post(JOBS, json={"kind": "echo", "schedule": schedule, "within": "5m"})
    assert_problem(answer, 422)
    assert answer.json()["errors"][0]["field"] == "within"


def test_a_job_that_waits_for_a_node_nobody_has_started_says_so(api: httpx.Client) -> None:
    made = create(api, kind="program", payload={"command": "true"})
    assert made["warnings"] == [
        "No live node serves the kind program: start one with EVENBEAT_PROGRAMS=on."
    ]
    job = {"kind": "program", "payload": {"command": "true"}}
    batch = api.post(f"{JOBS}/batch", json={"jobs": [job, job]})
    assert batch.json()["warnings"] == made["warnings"]
    assert create(api)["warnings"] == []
