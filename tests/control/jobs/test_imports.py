"""Imports: new jobs are added, existing ones stay as they are, and all or nothing is written."""

import json
from collections.abc import AsyncIterator

import pytest

from evenbeat.api.v1.jobs.wire import interval_scheduler_rows
from evenbeat.app import Evenbeat
from evenbeat.config import Settings
from evenbeat.core.errors import Conflict, InvalidInput
from evenbeat.core.jobs.imports import ImportCandidate, ImportStatus, read_crontab_candidates
from evenbeat.core.jobs.lifecycle import Action
from evenbeat.core.jobs.model import Definition, State
from evenbeat.core.ops.audit import Actor
from evenbeat.core.time.crontab import parse_crontab
from evenbeat.core.time.schedules import parse_schedule
from evenbeat.core.time.timetable import Timetable
from evenbeat.store.database.pool import Database
from evenbeat.store.jobs import jobs

BY = Actor("tests")


@pytest.fixture
async def eb(settings: Settings, database: Database) -> AsyncIterator[Evenbeat]:
    async with Evenbeat(settings) as opened:
        yield opened


def crontab(text: str) -> list[ImportCandidate]:
    return list(read_crontab_candidates(parse_crontab(text), zone="UTC", prefix="crontab/"))


async def test_importing_again_changes_nothing(eb: Evenbeat, database: Database) -> None:
    first = await eb.imports.preview(crontab("*/5 * * * * one\n0 3 * * * two\n"))
    assert await eb.imports.add_new_jobs(first, by=BY) == 2
    moved = await eb.imports.preview(crontab("# new\n0 3 * * * two\n\n*/5 * * * * one\n"))
    assert [finding.fate for finding in moved.findings] == [ImportStatus.SAME, ImportStatus.SAME]
    assert await eb.imports.add_new_jobs(moved, by=BY) == 0


async def test_a_job_that_differs_is_reported_and_not_changed(
    eb: Evenbeat, database: Database
) -> None:
    await eb.imports.add_new_jobs(await eb.imports.preview(crontab("0 3 * * * two\n")), by=BY)
    changed = await eb.imports.preview(crontab("0 4 * * * two\n"))
    [finding] = changed.findings
    assert (finding.fate, await eb.imports.add_new_jobs(changed, by=BY)) == (
        ImportStatus.DIFFERENT,
        0,
    )
    assert finding.candidate.definition is not None
    job = await jobs.find_job_by_name(database, finding.candidate.definition.name or "")
    assert job is not None
    assert job.definition.timetable.schedule.to_text() == "0 3 * * *"
    assert job.version == 1


async def test_a_preview_writes_nothing(eb: Evenbeat, database: Database) -> None:
    await eb.imports.preview(crontab("* * * * * one\n"))
    async with database.connection() as connection:
        assert await connection.fetchval("select count(*) from evenbeat.lane") == 0


async def test_a_payload_that_its_kind_refuses_is_reported_by_line(eb: Evenbeat) -> None:
    [candidate] = read_crontab_candidates(
        parse_crontab("* * * * * one\n"), zone="UTC", prefix="", kind="dance"
    )
    [finding] = (await eb.imports.preview([candidate])).findings
    assert finding.fate is ImportStatus.REFUSED
    assert "no kind 'dance'" in (finding.why or "")


async def test_an_imported_line_waits_and_explain_says_for_what(
    eb: Evenbeat, database: Database
) -> None:
    await eb.imports.add_new_jobs(await eb.imports.preview(crontab("0 3 * * * two\n")), by=BY)
    [name] = [each.definition.name for each in crontab("0 3 * * * two\n") if each.definition]
    job = await jobs.find_job_by_name(database, name or "")
    assert job is not None
    assert "No node is alive" in await eb.jobs.explain(job.uid)


def resting(name: str, aside: Action) -> ImportCandidate:
    timetable = Timetable(parse_schedule("every 1m"))
    return ImportCandidate(1, name, Definition("echo", timetable, name=name), aside=aside)


async def test_a_job_that_was_paused_is_added_paused_and_audited(
    eb: Evenbeat, database: Database
) -> None:
    report = await eb.imports.preview([resting("a", Action.PAUSE), resting("b", Action.DISABLE)])
    await eb.imports.add_new_jobs(report, by=BY)
    found = [await jobs.find_job_by_name(database, name) for name in "ab"]
    assert [job and job.pulse.state for job in found] == [State.PAUSED, State.DISABLED]
    done = [(entry.action, entry.actor.name) for entry in (await eb.audit.page()).entries]
    assert sorted(done) == [(action, "tests") for action in ("add", "add", "disable", "pause")]


async def test_all_jobs_are_added_or_none(eb: Evenbeat, database: Database) -> None:
    report = await eb.imports.preview([resting("a", Action.PAUSE), resting("b", Action.PAUSE)])
    await eb.jobs.add(Definition("echo", Timetable(parse_schedule("now")), name="b"))
    with pytest.raises(Conflict):
        await eb.imports.add_new_jobs(report, by=BY)
    assert await jobs.find_job_by_name(database, "a") is None


async def test_an_interval_of_the_old_scheduler_is_the_same_after_a_second_dump(
    eb: Evenbeat,
) -> None:
    row = {"id": "1", "url": "https://example.com", "interval_minutes": 15, "status": "running"}
    for next_at, fate in (
        ("10:07", ImportStatus.NEW),
        ("10:22", ImportStatus.SAME),
        ("10:20", ImportStatus.DIFFERENT),
    ):
        dump = json.dumps(row | {"next_run_at": f"2030-01-01T{next_at}:00Z"})
        report = await eb.imports.preview(
            interval_scheduler_rows.read_candidates(
                interval_scheduler_rows.read_dump(dump), prefix=""
            )
        )
        [finding] = report.findings
        assert finding.fate is fate
        await eb.imports.add_new_jobs(report, by=BY)
        assert finding.candidate.review == (
            "was running when the dump was made: see how that run ended",
        )
        assert finding.candidate.definition is not None
        assert finding.candidate.definition.timetable.schedule.describe() == "every 15 minutes"


@pytest.mark.parametrize(
    ("dump", "fault"),
    [
        ("url\nx\n", "has no column id"),
        ('{"id": 1}\n{', "line 2 is not JSON"),
        ('{"id": 1}\n[]', "line 2 is not an object"),
        ('id,url\n1,"x"y\n', "line 2 is not CSV"),
    ],
)
def test_a_dump_that_cannot_be_read_is_refused_with_its_line(dump: str, fault: str) -> None:
    with pytest.raises(InvalidInput, match=fault):
        interval_scheduler_rows.read_dump(dump)


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ({"id": None}, "id: is missing"),
        ({"interval_minutes": "often"}, "interval_minutes: must be a whole number"),
        ({"is_paused": "maybe"}, "is_paused: must be true or false"),
        ({"next_run_at": "soon"}, "next_run_at: "),
        ({"metadata": "{"}, "metadata: is not JSON"),
        ({"metadata": '{"n": 123456789012345678901}'}, "metadata.n: is an integer"),
        ({"type": "leadership_scrape"}, "url: belongs to jobs of kind crawl"),
        ({"interval_type": "weeks"}, "interval_type: "),
    ],
)
def test_a_row_that_cannot_be_taken_in_says_which_field(row: dict[str, object], fault: str) -> None:
    given = {"id": "1", "url": "https://example.com", "interval_minutes": 5} | row
    [candidate] = interval_scheduler_rows.read_candidates([(1, given)], prefix="")
    assert (candidate.why or "").startswith(fault)
