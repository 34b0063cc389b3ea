"""Lists of jobs: chosen, sorted, counted, a page at a time."""

import itertools
from typing import Any

import pytest

from tests.contracts.interval_jobs.client import JOBS, Client, Json
from tests.support.databases import Clock
from tests.support.serving import assert_refused


async def listed(api: Client, **query: object) -> Json:
    answer = await api.get(JOBS, **query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def ids(page: Json) -> list[str]:
    return [job["id"] for job in page["jobs"]]


async def crawl(api: Client, source: str, **more: Any) -> str:
    words = {"source_name": source, "url": "https://example.com/"} | more
    return (await api.create(source_id=source, **words))["id"]


async def test_the_newest_jobs_come_first_fifty_at_a_time(api: Client) -> None:
    made = [await crawl(api, "newest") for _ in range(3)]
    page = await listed(api)
    assert ids(page)[:3] == made[::-1]
    expected = {"limit": 50, "offset": 0, "sort_by": "created_at", "sort_order": "desc"}
    assert {name: page[name] for name in expected} == expected
    assert page["total"] >= 3
    assert page["jobs"][0] == {
        name: value
        for name, value in (await api.job(made[-1])).items()
        if name not in ("next", "health")
    }


async def test_pages_follow_each_other_without_gaps(api: Client) -> None:
    made = [await crawl(api, "paged") for _ in range(5)]
    pages = [await listed(api, source_id="paged", limit=2, offset=at) for at in (0, 2, 4)]
    assert [ids(page) for page in pages] == [made[:2:-1], made[2:0:-1], made[:1]]
    assert {(page["total"], page["limit"]) for page in pages} == {(5, 2)}
    assert [page["offset"] for page in pages] == [0, 2, 4]


async def test_jobs_are_chosen_by_their_source(api: Client) -> None:
    one, other = await crawl(api, "source-a"), await crawl(api, "source-b")
    assert ids(await listed(api, source_id="source-a")) == [one]
    assert ids(await listed(api, source_id="source-b")) == [other]
    page = await listed(api, source_id="source-")
    assert (page["jobs"], page["total"]) == ([], 0)


@pytest.mark.parametrize("text", ["needle", "NEEDLE", "eedl"])
async def test_jobs_are_found_by_a_part_of_their_name_or_url(api: Client, text: str) -> None:
    before = await listed(api, search=text)
    by_name = await crawl(api, "the needle site")
    by_url = await crawl(api, "other", url="https://needle.example/x")
    page = await listed(api, search=text)
    assert ids(page)[:2] == [by_url, by_name]
    assert page["total"] == before["total"] + 2


@pytest.mark.parametrize("text", ["%", "_", "' or 1=1 --", "'; drop table jobs; --", "\\"])
async def test_what_is_searched_for_is_text_and_nothing_else(api: Client, text: str) -> None:
    await crawl(api, "plain")
    assert (await listed(api, search=text, source_id="plain"))["total"] == 0
    assert (await listed(api, source_id=text))["total"] == 0
    found = await crawl(api, f"odd {text} name")
    assert ids(await listed(api, search=text, source_id=f"odd {text} name")) == [found]


async def in_every_status(api: Client, source: str) -> dict[str, str]:
    """The ids of jobs in every status; those that ran are found by their name."""
    made = {status: await crawl(api, source) for status in ("pending", "cancelled")}
    for status in ("scheduled", "paused", "disabled"):
        made[status] = await crawl(api, source, interval_minutes=30)
    for status, action in (("paused", "pause"), ("disabled", "disable"), ("cancelled", "cancel")):
        await api.acted(made[status], action)
    for status, kind in (("running", "hangs"), ("completed", "works"), ("failed", "fails")):
        job = await api.create(kind=kind, name=f"{source} {kind}", max_retries=0)
        made[status] = (await api.becomes(job["id"], status))["id"]
    return made


async def test_jobs_are_chosen_by_one_status_or_several(api: Client) -> None:
    made = await in_every_status(api, "by status")
    for status, job_id in made.items():
        page = await listed(api, status=status, search="by status")
        assert ids(page) == [job_id]
        assert page["total"] == 1
        assert page["jobs"][0]["status"] == status
    two = await listed(api, status="failed, paused", search="by status")
    assert set(ids(two)) == {made["failed"], made["paused"]}
    await api.acted(made["running"], "cancel")


async def test_statuses_are_counted_over_all_jobs(api: Client) -> None:
    async def counted() -> dict[str, int]:
        return (await api.get(f"{JOBS}/status-counts")).json()

    before = await counted()
    made = await in_every_status(api, "counted")
    after = await counted()
    assert after == {name: before.get(name, 0) + (name in made) for name in {*before, *made}}
    assert sum(after.values()) == (await listed(api))["total"]
    assert all(after.values()), "only statuses that there are"
    for status, count in after.items():
        assert (await listed(api, status=status))["total"] == count
    await api.acted(made["running"], "cancel")


async def test_jobs_are_sorted_by_what_the_caller_says(api: Client, clock: Clock) -> None:
    words = [("b", 30), ("c", 10), ("a", 20)]
    made: dict[str, str] = {}
    for name, minutes in words:
        made[name] = await crawl(
            api, "sorted", source_name=f"sorted {name}", interval_minutes=minutes
        )
        await clock.advance(seconds=1)
    await api.put(made["c"], max_retries=9)
    orders = {
        "created_at": "bca",
        "updated_at": "bac",
        "source_name": "abc",
        "next_run_at": "cab",
    }
    for field, order in orders.items():
        for sort_order, wanted in (("asc", order), ("desc", order[::-1])):
            query = {"sort_by": field, "sort_order": sort_order}
            page = await listed(api, source_id="sorted", **query)
            assert ids(page) == [made[name] for name in wanted], query
            assert {name: page[name] for name in query} == query


async def test_jobs_that_were_never_run_come_last_by_their_last_run(
    api: Client, clock: Clock
) -> None:
    never = (await api.create(kind="works", name="last-run a", interval_minutes=30))["id"]
    made: list[str] = []
    for name in "bc":
        job = await api.create(kind="works", name=f"last-run {name}")
        made.append(job["id"])
        await api.ended(job["id"])
        await clock.advance(seconds=1)
    query = {"search": "last-run", "sort_by": "last_run_at"}
    assert ids(await listed(api, **query, sort_order="asc")) == [*made, never]
    assert ids(await listed(api, **query, sort_order="desc")) == [*made[::-1], never]


async def test_jobs_without_a_next_run_come_first_when_the_latest_do(api: Client) -> None:
    one = await crawl(api, "no next", interval_minutes=30)
    none = await crawl(api, "no next", interval_minutes=30)
    await api.acted(none, "pause")
    query = {"source_id": "no next", "sort_by": "next_run_at"}
    assert ids(await listed(api, **query, sort_order="desc")) == [none, one]
    assert ids(await listed(api, **query, sort_order="asc")) == [one, none]


def stand_together(seen: list[str]) -> bool:
    changes = sum(a != b for a, b in itertools.pairwise(seen))
    return changes == len(set(seen)) - 1


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("field", ["type", "status"])
async def test_jobs_of_one_type_and_of_one_status_stand_together(
    api: Client, field: str, order: str
) -> None:
    text = f"together by {field} {order}"
    made = [await in_every_status(api, f"{text} {number}") for number in (1, 2)]
    page = await listed(api, sort_by=field, sort_order=order, search=text)
    assert page["total"] == 16
    assert stand_together([job[field] for job in page["jobs"]])
    for each in made:
        await api.acted(each["running"], "cancel")


async def test_jobs_that_run_stand_together_whether_or_not_they_recur(api: Client) -> None:
    once = await api.create(kind="hangs", name="recur 1")
    recurring = await api.create(kind="hangs", name="recur 2", interval_minutes=30)
    await api.act(recurring["id"], "run")
    for job in (once, recurring):
        await api.becomes(job["id"], "running")
    for number in (3, 4):
        await crawl(api, f"recur {number}")
    page = await listed(api, sort_by="status", search="recur ")
    for job in (once, recurring):
        await api.acted(job["id"], "cancel")
    assert stand_together([job["status"] for job in page["jobs"]])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("limit", value) for value in (0, -1, 251, "many")),
        *(("offset", value) for value in (-1, "x")),
        *(("sort_by", value) for value in ("lock_token", "id; drop table jobs")),
        ("sort_order", "up"),
        ("status", "unheard-of"),
        ("no_such_filter", 1),
    ],
)
async def test_what_cannot_be_listed_is_refused_with_the_field(
    api: Client, name: str, value: object
) -> None:
    assert_refused(await api.get(JOBS, **{name: value}), name)


@pytest.mark.parametrize("limit", [1, 250])
async def test_a_page_has_up_to_250_jobs(api: Client, limit: int) -> None:
    await crawl(api, "limits")
    page = await listed(api, limit=limit)
    assert page["limit"] == limit
    assert len(page["jobs"]) == min(limit, page["total"])
