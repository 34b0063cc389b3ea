"""Hostile values in every field that can be written: refused by name, and nothing is stored."""

import json
import re
from collections.abc import Iterable, Iterator

import httpx2 as httpx
import pytest

from evenbeat.api.v1.jobs.wire.actions import FilterIn, JobActionIn, RestoreIn
from evenbeat.api.v1.jobs.wire.job_in import BatchIn, JobIn
from evenbeat.api.v1.jobs.wire.schedule import ScheduleIn
from evenbeat.api.v1.jobs.wire.template import FillIn, TemplateIn
from evenbeat.api.v1.ops.wire.operations import MaintenanceIn
from evenbeat.api.v1.ops.wire.token import TokenIn
from evenbeat.core.ops.access import Role
from tests.api.corpus import (
    CHOICES,
    CORPUS,
    INSTANTS,
    OBJECTS,
    PAYLOADS,
    SCHEDULES,
    TEXTS,
    WHOLE_NUMBERS,
    WHOLE_TIMEOUTS,
    WINDOWS,
    job_with,
)
from tests.support.serving import assert_refused, client_of, token_for

JOBS = "/api/v1/jobs"
STRANGE = [*TEXTS, *WHOLE_NUMBERS, *PAYLOADS, None, {"every": []}, {"a": {}}]


@pytest.fixture(scope="module")
def admin(address: str) -> Iterator[httpx.Client]:
    with client_of(address, token_for(Role.ADMIN)) as client:
        yield client


@pytest.fixture(scope="module")
def job(admin: httpx.Client) -> str:
    """The address of a job that nothing here changes."""
    made = admin.post(JOBS, json={"kind": "echo", "schedule": "once 2100-01-01T00:00:00Z"})
    return made.headers["location"]


def send(api: httpx.Client, method: str, path: str, body: object) -> httpx.Response:
    # What json= would refuse to write: NaN, and half a surrogate pair.
    headers = {"content-type": "application/json"}
    return api.request(method, path, content=json.dumps(body), headers=headers)


def count(api: httpx.Client) -> int:
    return api.get(JOBS, params={"limit": 1}).json()["total"]


def check(answer: httpx.Response, field: str, value: object) -> None:
    try:
        assert_refused(answer, field)
    except AssertionError as error:
        raise AssertionError(f"{field} = {repr(value)[:200]}: {error}") from None


def test_there_are_hostile_values_for_every_field_of_a_job() -> None:
    assert CORPUS.keys() == JobIn.model_fields.keys()
    assert all(CORPUS.values())


@pytest.mark.parametrize("field", CORPUS)
def test_a_hostile_value_is_refused_by_the_name_of_its_field(
    admin: httpx.Client, field: str
) -> None:
    before = count(admin)
    for value in CORPUS[field]:
        check(send(admin, "POST", JOBS, job_with(field, value)), field, value)
    assert count(admin) == before


@pytest.mark.parametrize("field", CORPUS)
def test_in_a_batch_its_place_is_named_and_none_is_stored(admin: httpx.Client, field: str) -> None:
    before = count(admin)
    for value in CORPUS[field]:
        answer = send(
            admin, "POST", f"{JOBS}/batch", {"jobs": [{"kind": "echo"}, job_with(field, value)]}
        )
        named = [each["field"] for each in answer.json()["errors"]]
        assert answer.status_code == 422
        assert all(name.startswith(("jobs.1.", "jobs[1].")) for name in named), (value, named)
    assert count(admin) == before


# A change says which job it is; that it is to be deduplicated is said once; null is the default.
@pytest.mark.parametrize("field", [field for field in CORPUS if field != "dedupe_key"])
def test_in_a_change_it_is_refused_and_the_job_stays_as_it_is(
    admin: httpx.Client, job: str, field: str
) -> None:
    before = admin.get(job).json()
    for value in CORPUS[field]:
        if value is None:
            continue
        change = {name: each for name, each in job_with(field, value).items() if name != "kind"}
        answer = send(admin, "PATCH", job, change | {field: value})
        assert answer.status_code == 422, f"{field} = {value!r}: {answer.text[:500]}"
        assert answer.json()["errors"][0]["field"]
    assert admin.get(job).json() == before


@pytest.mark.parametrize("field", [*CORPUS, "id", "\x00", "\ud800", ""])
def test_nothing_is_an_error_of_ours_in_any_field(admin: httpx.Client, field: str) -> None:
    for value in STRANGE:
        answer = send(admin, "POST", JOBS, job_with(field, value))
        assert answer.status_code in (201, 409, 422), f"{field} = {value!r}: {answer.text[:500]}"


def listed(values: Iterable[object]) -> list[object]:
    """Each as the one element of a list, and each instead of the list."""
    return [[], "x", 7, *([value] for value in values)]


SWITCHES = ["", "true", 0, 1, [], {}, None]
IDS = listed(["", "x", 7, "\x00", "\ud800", None, "../../etc/passwd"])
LISTS = [*listed(TEXTS), ["x"] * 101]
STATES = [*listed(TEXTS), ["nonesuch"], ["PENDING"], [" "], [","]]
TEMPLATE = {"job": {"kind": "echo", "payload": "${who}"}, "parameters": {"who": "x"}}
# Of each body: where it goes, what goes right, and hostile values for each of its fields.
BODIES = {
    ScheduleIn: (
        *("POST", "/api/v1/schedule/preview", {"schedule": "every 1h"}),
        {
            "schedule": SCHEDULES,
            "starts_at": INSTANTS,
            "ends_at": INSTANTS,
            "max_runs": [*WHOLE_NUMBERS, 0],
            "window": WINDOWS,
            "within": WHOLE_TIMEOUTS,
            "prefers": WINDOWS,
            "name": [*TEXTS, "x" * 201],
            "count": [*WHOLE_NUMBERS, 0, 101, None],
        },
    ),
    JobActionIn: (
        *("POST", f"{JOBS}/actions", {"action": "pause", "filter": {"kind": ["none"]}}),
        {
            "action": [*CHOICES, None, "edit", "PAUSE"],
            "filter": [*(7, "x", [], None, {}, {"colour": 1}, {"kind": None}, {"labels": {}})],
            "dry_run": SWITCHES,
            "skip_refused": SWITCHES,
        },
    ),
    RestoreIn: ("POST", "{job}/restore", {"version": 1}, {"version": [*WHOLE_NUMBERS, 0, None]}),
    MaintenanceIn: (
        *("PUT", "/api/v1/maintenance", {"reason": "x"}),
        {"reason": [*TEXTS, None, "x" * 501]},
    ),
    TemplateIn: (
        *("PUT", "/api/v1/templates/hostile", TEMPLATE),
        {
            "job": [*OBJECTS, None, {"colour": 1}, {"\ud800": 1}],
            "parameters": [*OBJECTS, None, {"": 1}, {"A": 1}, {"other": 1}, {"who": "\x00"}],
            "description": [*(text for text in TEXTS if text != ""), "x" * 1_001],
        },
    ),
    FillIn: (
        *("POST", "/api/v1/templates/good/jobs", {"parameters": {"who": "x"}}),
        {
            "parameters": [7, "x", [], None, {"\x00": 1}, {"other": 1}, {"who": None}],
            "job": [*(7, "x", [], None, {"colour": 1}, {"priority": 101}, {"name": "\x00"})],
        },
    ),
    BatchIn: (
        *("POST", f"{JOBS}/batch", {"jobs": [{"kind": "echo"}]}),
        {"jobs": [7, "x", {}, [], None, [7], [None], [[]], [{}], [{"kind": "\ud800"}]]},
    ),
    TokenIn: (
        *("POST", "/api/v1/tokens", {"name": "x"}),
        {
            "name": [*TEXTS, None, "x" * 201],
            "role": [*CHOICES, None, "root", "ADMIN"],
            "expires": [*(value for value in WHOLE_TIMEOUTS if value != "31d"), None, "100y"],
        },
    ),
}
FILTERS: dict[str, list[object]] = {
    "ids": IDS,
    "status": [*STATES, ["blocked"]],
    "state": STATES,
    "kind": LISTS,
    "group": LISTS,
    "tag": [*TEXTS, "x" * 201],
    "labels": [7, "x", [], {"": "x"}, {"a": 1}, {"\x00": "x"}, {"a": "\x00"}, {"a": "\ud800"}],
    "source_id": [*TEXTS, "x" * 201],
    "search": [*TEXTS, "x" * 201],
    "all": SWITCHES,
}


def test_there_are_hostile_values_for_every_field_of_every_body() -> None:
    for model, (*_, fields) in BODIES.items():
        assert fields.keys() == model.model_fields.keys()
    assert FILTERS.keys() == FilterIn.model_fields.keys()


@pytest.mark.parametrize("model", BODIES, ids=lambda model: model.__name__)
def test_a_hostile_value_in_any_body_is_refused_by_the_name_of_its_field(
    admin: httpx.Client, job: str, model: type
) -> None:
    admin.put("/api/v1/templates/good", json=TEMPLATE)
    before = count(admin)
    method, path, good, fields = BODIES[model]
    for field, values in fields.items():
        for value in values:
            answer = send(admin, method, path.format(job=job), good | {field: value})
            check(answer, field, value)
    assert_refused(send(admin, method, path.format(job=job), good | {"colour": 1}), "colour")
    assert count(admin) == before
    assert admin.get("/api/v1/templates/hostile").status_code == 404
    assert admin.get("/api/v1/maintenance").json()["is_on"] is False


@pytest.mark.parametrize("field", FILTERS)
def test_a_hostile_filter_touches_no_job(admin: httpx.Client, job: str, field: str) -> None:
    for value in FILTERS[field]:
        # Beside a condition that holds for the job: one that is ignored would do harm.
        body = {"action": "delete", "filter": {"kind": ["echo"], field: value}}
        check(send(admin, "POST", f"{JOBS}/actions", body), "filter", value)
    assert admin.get(job).status_code == 200


QUERIES = [
    *("", "%00", "a%00b", "%ff", "%ed%a0%80", "x" * 5_000, "-1", "0", "9" * 5_000, "1e400", "NaN"),
    *("9223372036854775808", "%F0%9F%92%A9", "٣", "../../etc/passwd", "a=b", "=", ",", "%25", "_"),
    *("'; drop table evenbeat.job; --", "null", "true", "infinity", "MQ", "MQ==", "LTE=", "%5C"),
]


def refusal_at(path: str) -> int:
    """Clients of tasks know 400 for what cannot be accepted."""
    return 400 if path.startswith("/tasks") else 422


def test_no_query_parameter_of_any_operation_is_an_error_of_ours(
    admin: httpx.Client, job: str
) -> None:
    paths = admin.get("/openapi.json").json()["paths"]
    asked = 0
    for path, verbs in paths.items():
        for parameter in verbs.get("get", {}).get("parameters", ()):
            if parameter["in"] != "query":
                continue
            place = re.sub("{(job_)?id}", job.rpartition("/")[2], path).replace("{key}", "none")
            for value in QUERIES:
                answer = admin.get(f"{place}?{parameter['name']}={value}")
                where = f"{place}?{parameter['name']}={value[:50]}: {answer.text[:300]}"
                assert answer.status_code in (200, 404, refusal_at(path)), where
                if answer.status_code == refusal_at(path):
                    assert_refused(answer, parameter["name"], refusal_at(path))
                asked += 1
    assert asked > 15 * len(QUERIES)


def test_no_name_in_an_address_is_an_error_of_ours(admin: httpx.Client) -> None:
    paths = admin.get("/openapi.json").json()["paths"]
    for path, verbs in paths.items():
        if "{" not in path:
            continue
        for verb in verbs:
            for value in ("%00", "%ff", "%ed%a0%80", "x" * 5_000, "9" * 5_000, "%20", "é"):
                head, _, tail = path.partition("{")
                place = f"{head}{value}{tail.partition('}')[2]}"
                answer = send(admin, verb.upper(), place, {})
                where = f"{verb} {place[:80]}: {answer.text[:300]}"
                # Of a group the key is all it takes, and these two make sense.
                is_key = path.startswith("/api/v1/groups/") and value in ("%20", "é")
                expected = (200, 201, 404, 422) if is_key else (404, refusal_at(path))
                assert answer.status_code in expected, where
