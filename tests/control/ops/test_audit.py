"""The audit: every change is in it, along with who made it, or there is no change."""

import pytest

from evenbeat.control.jobs.templates import Templates
from evenbeat.control.ops.audit import Audit
from evenbeat.core.errors import InvalidInput
from evenbeat.core.jobs.filters import Filter
from evenbeat.core.jobs.lifecycle import Action
from evenbeat.core.jobs.model import State
from evenbeat.core.jobs.templates import Template
from evenbeat.core.ops.audit import PYTHON, Actor
from evenbeat.store.ops import audit
from tests.conftest import START
from tests.control.controlled_jobs import ANN, ControlledJobs, due
from tests.store.given import HOUR
from tests.support.databases import Clock


async def test_it_says_who_when_what_and_only_what_differs(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job = await controlled.add(due(name="nightly"), due_at=START + HOUR)
    now = await clock.advance(minutes=3)
    await controlled.jobs.pause(job.uid, by=ANN)
    [entry] = await controlled.audit()
    assert (entry.at, entry.actor, entry.action) == (now, ANN, "pause")
    assert (entry.job_uid, entry.job_name) == (job.uid, "nightly")
    assert (entry.before, entry.after) == ({"state": "scheduled"}, {"state": "paused"})


async def test_an_edit_is_told_by_the_fields_that_changed(controlled: ControlledJobs) -> None:
    job = await controlled.add(due(payload={"a": 1}), due_at=START + HOUR)
    await controlled.edit(job, payload={"a": 2}, priority=3)
    [entry] = await controlled.audit()
    assert entry.before == {"payload": {"a": 1}, "priority": 0, "version": 1}
    assert entry.after == {"payload": {"a": 2}, "priority": 3, "version": 2}


async def test_what_is_asked_of_a_run_in_hand_is_told_as_wanted(controlled: ControlledJobs) -> None:
    job = await controlled.add(due())
    await controlled.start(job)
    await controlled.jobs.cancel(job.uid)
    [entry] = await controlled.audit()
    assert (entry.before, entry.after) == ({"wanted": None}, {"wanted": "cancelled"})
    assert entry.actor == PYTHON


async def test_what_is_done_to_templates_is_told(controlled: ControlledJobs) -> None:
    templates = Templates(controlled.database)
    await templates.put(Template("hello", {"kind": "echo", "priority": 1}), by=ANN)
    changed = await templates.put(Template("hello", {"kind": "echo", "priority": 2}), by=ANN)
    assert changed.version == 2
    await templates.delete("hello", by=ANN)
    deleted, put, made = await controlled.audit(actor="ann")
    assert [each.action for each in (made, put, deleted)] == [
        *("put_template", "put_template", "delete_template")
    ]
    assert (made.before["job"], made.after["template"]) == (None, "hello")
    assert (put.before, put.after["job"]) == (
        {"job": {"kind": "echo", "priority": 1}},
        {"kind": "echo", "priority": 2},
    )
    assert (deleted.before["job"]["priority"], deleted.after["job"]) == (2, None)


async def test_a_change_without_its_audit_is_no_change(
    controlled: ControlledJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await controlled.add(due())

    async def fail(*_: object, **__: object) -> None:
        raise ConnectionError("the audit cannot be written")

    monkeypatch.setattr(audit, "write_audit", fail)
    for act in (controlled.jobs.pause, controlled.jobs.run, controlled.jobs.delete):
        with pytest.raises(ConnectionError):
            await act(job.uid)
    with pytest.raises(ConnectionError):
        await controlled.edit(job, payload=1)
    with pytest.raises(ConnectionError):
        await controlled.maintenance.on("upgrade")
    with pytest.raises(ConnectionError):
        await Templates(controlled.database).put(Template("hello", {"kind": "echo"}))
    assert await Templates(controlled.database).all() == []
    assert await controlled.find(job) == job
    assert await controlled.maintenance.status() is None


async def test_it_is_read_in_pages_newest_first_by_job_and_by_actor(
    controlled: ControlledJobs,
) -> None:
    jobs = [await controlled.add(due()) for _ in range(3)]
    bob = Actor("bob")
    for by, action in ((ANN, Action.PAUSE), (bob, Action.RESUME)):
        await controlled.jobs.act(action, Filter(), by=by)
    read = Audit(controlled.database)
    first = await read.page(limit=4)
    rest = await read.page(limit=4, older_than=first.older_than)
    ids = [entry.id for entry in [*first.entries, *rest.entries]]
    assert len(ids) == 6
    assert ids == sorted(ids, reverse=True)
    assert rest.older_than is None
    assert {entry.actor for entry in await controlled.audit(actor="bob")} == {bob}
    of_one = await controlled.audit(job=jobs[1].uid)
    assert [entry.action for entry in of_one] == ["resume", "pause"]
    assert {entry.job_uid for entry in of_one} == {jobs[1].uid}


@pytest.mark.parametrize("name", ["", "x" * 201, "a\x00"])
def test_an_actor_that_could_not_be_written_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="actor"):
        Actor(name)


async def test_a_state_that_did_not_change_is_not_told(controlled: ControlledJobs) -> None:
    job = await controlled.add(due(), due_at=START + HOUR)
    await controlled.jobs.run(job.uid)
    [entry] = await controlled.audit()
    assert entry.before == {"manual_at": None}
    assert list(entry.after) == ["manual_at"]
    assert (await controlled.find(job)).pulse.state is State.SCHEDULED


async def test_what_a_person_adds_is_audited_and_what_a_program_adds_is_not(
    controlled: ControlledJobs,
) -> None:
    named = await controlled.jobs.add(due(name="by hand"), by=ANN)
    await controlled.jobs.add_many([due(), due()], by=ANN)
    await controlled.jobs.add(due())
    entries = await controlled.audit()
    assert [(entry.action, entry.actor) for entry in entries] == [("add", ANN)] * 3
    assert (named.uid, "by hand") in [(entry.job_uid, entry.job_name) for entry in entries]
