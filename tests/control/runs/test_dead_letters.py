"""Dead letters in the hands of people: looked through, acknowledged, requeued, discarded."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from evenbeat.control.runs import dead_letters as control
from evenbeat.control.runs.dead_letters import DeadLetters
from evenbeat.core.errors import Conflict, InvalidInput, NotFound
from evenbeat.core.jobs.groups import Group
from evenbeat.core.jobs.model import DECLARED_IN, ErrorClass, Job, RunState, State
from evenbeat.core.ops.audit import Actor
from evenbeat.core.runs.dead_letters import (
    DeadLetter,
    LetterAction,
    LetterFilter,
    LetterState,
    Remark,
)
from evenbeat.core.runs.outcome import Failed, HandedBack, Snoozed
from evenbeat.store.jobs import groups
from evenbeat.store.ops import figures
from tests.conftest import START
from tests.control.controlled_jobs import ANN, ControlledJobs, due
from tests.store.given import HOUR
from tests.support.databases import Clock

BOB = Actor("bob")
ONCE = {"max_attempts": 1}
ACKNOWLEDGE, REQUEUE, DISCARD = LetterAction
OPEN = LetterFilter(states=frozenset([LetterState.OPEN]))


def letters_of(controlled: ControlledJobs) -> DeadLetters:
    return DeadLetters(controlled.database, controlled.jobs)


async def bury(
    controlled: ControlledJobs, schedule: str = "now", error: str = "out of order", **more: Any
) -> tuple[Job, DeadLetter]:
    """A job whose only attempt has failed, and the letter of that."""
    job = await controlled.add(due(schedule, policy=ONCE, **more))
    await controlled.finish(job, Failed(error))
    [letter, *_] = (await letters_of(controlled).page(LetterFilter(job_uid=job.uid))).letters
    return job, letter


async def test_a_letter_tells_its_job_its_payload_its_last_error_and_its_runs(
    controlled: ControlledJobs, clock: Clock
) -> None:
    written = due("now", name="nightly", payload={"n": 1}, policy={"max_attempts": 2})
    job = await controlled.add(written)
    await controlled.finish(job, Failed("the first of 2 errors"))
    await clock.advance(minutes=1)
    await controlled.finish(job, Failed("the last of 2 errors"))
    [letter] = (await letters_of(controlled).page()).letters
    assert (letter.job_uid, letter.job_name, letter.kind) == (job.uid, "nightly", "echo")
    assert (letter.payload, letter.attempts, letter.beat_at) == ({"n": 1}, 2, START)
    assert (letter.error, letter.error_class) == ("the last of 2 errors", ErrorClass.HANDLER_ERROR)
    assert (letter.signature, letter.state) == ("the last of <n> errors", LetterState.OPEN)
    runs = await letters_of(controlled).runs(letter)
    assert [(run.attempt, run.error) for run in runs] == [
        (2, "the last of 2 errors"),
        (1, "the first of 2 errors"),
    ]


async def test_the_runs_of_a_letter_are_those_of_its_beat_alone(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job, _ = await bury(controlled, "every 1h")
    await clock.advance(hours=1)
    await controlled.fail(job)
    [newest, oldest] = (await letters_of(controlled).page()).letters
    for letter in (newest, oldest):
        [run] = await letters_of(controlled).runs(letter)
        assert (run.id, run.beat_at, run.state) == (letter.id, letter.beat_at, RunState.FAILED)


@pytest.mark.parametrize("by_hand", [False, True])
async def test_what_was_handed_back_is_no_run_of_a_letter(
    controlled: ControlledJobs, clock: Clock, by_hand: bool
) -> None:
    job = await controlled.add(due("every 1h", policy={"max_attempts": 2}))
    if by_hand:
        await controlled.jobs.run(job.uid)
    for outcome in (Failed("first"), HandedBack(), Snoozed(timedelta(minutes=1)), Failed("last")):
        await controlled.finish(job, outcome)
        await clock.advance(minutes=5)
    [letter] = (await letters_of(controlled).page()).letters
    runs = await letters_of(controlled).runs(letter)
    assert [run.error for run in runs] == ["last", "first"]


async def test_of_a_run_by_hand_as_many_runs_are_told_as_were_tried(
    controlled: ControlledJobs,
) -> None:
    job, _ = await bury(controlled, "every 1h")
    for _ in range(2):
        await controlled.jobs.retry(job.uid)
        await controlled.fail(job)
    [newest, *_] = (await letters_of(controlled).page()).letters
    assert newest.beat_at is None
    assert [run.id for run in await letters_of(controlled).runs(newest)] == [newest.id]


async def test_those_that_nobody_has_acknowledged_come_first(controlled: ControlledJobs) -> None:
    letters = [(await bury(controlled))[1] for _ in range(4)]
    await letters_of(controlled).acknowledge(letters[3].id)
    await letters_of(controlled).discard(letters[1].id)
    page = await letters_of(controlled).page()
    expected = [letters[at].id for at in (2, 0, 3, 1)]
    assert [each.id for each in page.letters] == expected
    assert page.total == 4
    second = await letters_of(controlled).page(limit=2, offset=2)
    assert ([each.id for each in second.letters], second.total) == (expected[2:], 4)


async def test_letters_are_found_by_every_condition(controlled: ControlledJobs) -> None:
    job, letter = await bury(
        controlled, name="one", payload=1, group=Group("site"), error="no place for 'x'"
    )
    _, other = await bury(controlled, name="two", error="another")
    letters = letters_of(controlled)
    await letters.acknowledge(letter.id, Remark(owner="ann"))
    conditions = [
        {"ids": frozenset([letter.id])},
        {"states": frozenset([LetterState.ACKNOWLEDGED])},
        {"job_uid": job.uid},
        {"job_name": "one"},
        {"group": "site"},
        {"signature": "no place for <text>"},
        {"owner": "ann"},
    ]
    for each in conditions:
        page = await letters.page(LetterFilter(**each))
        assert ([found.id for found in page.letters], page.total) == ([letter.id], 1), each
    assert [found.id for found in (await letters.page(OPEN)).letters] == [other.id]
    assert (await letters.page(LetterFilter(kind="echo"))).total == 2
    assert (await letters.page(LetterFilter(kind="crawl"))).total == 0


async def test_letters_are_grouped_by_what_went_wrong(
    controlled: ControlledJobs, clock: Clock
) -> None:
    for number in range(3):
        _, letter = await bury(controlled, error=f"no answer after {number} s")
        await clock.advance(minutes=1)
    _, other = await bury(controlled, error="refused")
    await letters_of(controlled).acknowledge(other.id)
    page = await letters_of(controlled).grouped()
    first, second = page.groups
    assert page.total == 2
    assert (first.signature, first.count, first.open, first.jobs) == (
        *("no answer after <n> s", 3, 3, 3),
    )
    assert (first.last_at - first.first_at).total_seconds() == 120
    assert (first.newest_id, first.kinds) == (letter.id, ("echo",))
    assert (second.signature, second.count, second.open) == ("refused", 1, 0)
    assert (await letters_of(controlled).grouped(OPEN)).total == 1


async def test_a_letter_is_acknowledged_once_by_whom_and_why(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job, letter = await bury(controlled)
    at = await clock.advance(minutes=5)
    seen = await letters_of(controlled).acknowledge(letter.id, Remark("the disk", "ops"), by=ANN)
    assert (seen.state, seen.acknowledged_at, seen.acknowledged_by) == ("acknowledged", at, "ann")
    assert (seen.note, seen.owner) == ("the disk", "ops")
    with pytest.raises(Conflict, match="acknowledged by ann at 2030-01-01T12:05:00Z"):
        await letters_of(controlled).acknowledge(letter.id, by=BOB)
    assert await letters_of(controlled).get(letter.id) == seen
    assert (await controlled.find(job)).pulse.state is State.FAILED, (
        "that is no concern of the job's"
    )


async def test_what_people_do_to_letters_is_audited_with_its_job(
    controlled: ControlledJobs,
) -> None:
    job, letter = await bury(controlled, name="nightly")
    await letters_of(controlled).acknowledge(letter.id, Remark(note="seen"), by=ANN)
    await letters_of(controlled).discard(letter.id, by=BOB)
    discarded, acknowledged = await controlled.audit(job=job.uid)
    assert (acknowledged.actor, acknowledged.action) == (ANN, "acknowledge")
    assert acknowledged.before == {"state": "open"}
    assert acknowledged.after["state"] == "acknowledged"
    assert acknowledged.after["note"] == "seen"
    assert (discarded.actor.name, discarded.action) == ("bob", "discard")
    assert discarded.before == {"state": "acknowledged"}


async def test_a_discarded_letter_is_over(controlled: ControlledJobs) -> None:
    _, letter = await bury(controlled)
    gone = await letters_of(controlled).discard(letter.id, Remark("a test"), by=ANN)
    assert (gone.state, gone.ended_by, gone.acknowledged_by) == ("discarded", "ann", "ann")
    for action in LetterAction:
        with pytest.raises(Conflict, match="discarded by ann"):
            await letters_of(controlled).act(action, LetterFilter.one(letter.id))


async def test_a_one_off_job_is_requeued_as_itself(controlled: ControlledJobs) -> None:
    job, letter = await bury(controlled, payload={"n": 1})
    done = await letters_of(controlled).requeue(letter.id, by=ANN)
    assert (done.state, done.requeued_as, done.ended_by) == ("requeued", job.uid, "ann")
    await controlled.finish(job)
    assert (await controlled.find(job)).pulse.state is State.COMPLETED
    assert [entry.action for entry in await controlled.audit(job=job.uid)] == ["requeue", "retry"]


@pytest.mark.parametrize("after_failure", ["continue", "stop"])
async def test_a_recurring_job_is_requeued_beside_its_schedule(
    controlled: ControlledJobs, after_failure: str
) -> None:
    policy = ONCE | {"after_failure": after_failure}
    job = await controlled.add(due("every 1h", policy=policy))
    await controlled.fail(job)
    [letter] = (await letters_of(controlled).page()).letters
    assert (await letters_of(controlled).requeue(letter.id)).requeued_as == job.uid
    await controlled.finish(job)
    pulse = (await controlled.find(job)).pulse
    assert (pulse.state, pulse.completed_count) == (State.SCHEDULED, 1)
    assert pulse.next_beat_at == START + HOUR, "its beats stay where they were"


async def test_a_paused_job_runs_once_and_stays_paused(controlled: ControlledJobs) -> None:
    job, letter = await bury(controlled, "every 1h")
    await controlled.jobs.pause(job.uid)
    await letters_of(controlled).requeue(letter.id)
    await controlled.finish(job)
    assert (await controlled.find(job)).pulse.state is State.PAUSED


async def test_an_edited_payload_is_a_job_of_its_own(controlled: ControlledJobs) -> None:
    group = Group("site", max_running=2, job_limit=1)
    more = {"labels": {"team": "a", DECLARED_IN: "jobs.py"}, "priority": 7, "group": group}
    job, letter = await bury(controlled, "every 1h", name="nightly", payload={"n": 1}, **more)
    done = await letters_of(controlled).requeue(letter.id, payload={"n": 2}, by=ANN)
    assert done.requeued_as not in (None, job.uid)
    made = await controlled.jobs.get(done.requeued_as)  # type: ignore[arg-type]
    assert (made.definition.payload, made.definition.name) == ({"n": 2}, None)
    assert (made.definition.labels, made.definition.priority) == ({"team": "a"}, 7)
    assert made.definition.policy == job.definition.policy
    assert made.definition.group == Group("site", job_limit=1)
    assert (await groups.find_group(controlled.database, "site")).max_running == 2
    assert (await controlled.find(job)).definition.payload == {"n": 1}, (
        "the schedule goes on as it was"
    )
    await controlled.finish(made)
    assert (await controlled.find(made)).pulse.state is State.COMPLETED


async def test_a_payload_that_says_true_instead_of_one_is_an_edited_one(
    controlled: ControlledJobs,
) -> None:
    job, letter = await bury(controlled, "every 1h", payload={"dry": 1})
    done = await letters_of(controlled).requeue(letter.id, payload={"dry": True})
    made = await controlled.jobs.get(done.requeued_as)  # type: ignore[arg-type]
    assert made.uid != job.uid
    assert made.definition.payload["dry"] is True


async def test_a_job_that_was_changed_since_is_not_run_in_the_name_of_the_letter(
    controlled: ControlledJobs,
) -> None:
    job, letter = await bury(controlled, "every 1h", payload=1)
    await controlled.edit(job, payload=2)
    done = await letters_of(controlled).requeue(letter.id)
    made = await controlled.jobs.get(done.requeued_as)  # type: ignore[arg-type]
    assert (made.uid != job.uid, made.definition.payload) == (True, 1)


@pytest.mark.parametrize("action", ["cancel", "delete"])
async def test_a_job_that_was_ended_is_not_brought_back(
    controlled: ControlledJobs, action: str
) -> None:
    job, letter = await bury(controlled, "every 1h", payload=1)
    await getattr(controlled.jobs, action)(job.uid)
    done = await letters_of(controlled).requeue(letter.id)
    made = await controlled.jobs.get(done.requeued_as)  # type: ignore[arg-type]
    assert (made.uid != job.uid, made.definition.payload) == (True, 1)
    await controlled.finish(made)
    old = await controlled.jobs.get(job.uid, with_deleted=True)
    assert (old.pulse.due_at, old.pulse.completed_count) == (None, 0)


async def test_a_letter_can_be_requeued_when_nothing_is_left_of_its_job(
    controlled: ControlledJobs,
) -> None:
    job, letter = await bury(controlled, payload=1)
    await controlled.fetch("delete from evenbeat.job where id = $1", job.id)
    await controlled.fetch("delete from evenbeat.pulse where id = $1", job.id)
    done = await letters_of(controlled).requeue(letter.id)
    made = await controlled.jobs.get(done.requeued_as)  # type: ignore[arg-type]
    assert (made.definition.kind, made.definition.payload) == ("echo", 1)


async def test_a_job_that_runs_is_not_run_beside_itself(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job, letter = await bury(controlled, "every 1h")
    await clock.advance(hours=1)
    await controlled.start(job)
    with pytest.raises(Conflict, match="running"):
        await letters_of(controlled).requeue(letter.id)
    dry = await letters_of(controlled).act(REQUEUE, OPEN, dry_run=True)
    assert (dry.changed, [each.id for each in dry.refused]) == ((), [letter.id])
    assert (await letters_of(controlled).get(letter.id)).state is LetterState.OPEN


async def test_a_payload_that_cannot_be_kept_leaves_the_letter_as_it_is(
    controlled: ControlledJobs,
) -> None:
    _, letter = await bury(controlled)
    with pytest.raises(InvalidInput, match="payload"):
        await letters_of(controlled).requeue(letter.id, payload={"a": "\x00"})
    assert (await letters_of(controlled).get(letter.id)).state is LetterState.OPEN


async def test_letters_of_one_job_are_one_run_of_it(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job, _ = await bury(controlled, "every 1h")
    await clock.advance(hours=1)
    await controlled.fail(job)
    done = await letters_of(controlled).act(REQUEUE, LetterFilter(job_uid=job.uid), by=ANN)
    assert len(done.changed) == 2
    await controlled.finish(job)
    assert [run.state for run in await controlled.history(job)] == ["failed", "failed", "completed"]
    assert await controlled.take_all() == []


async def test_many_are_acknowledged_by_the_name_of_their_job(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job, _ = await bury(controlled, "every 1h", name="nightly")
    await clock.advance(hours=1)
    await controlled.fail(job)
    _, other = await bury(controlled, name="another")
    chosen = LetterFilter(job_name="nightly")
    dry = await letters_of(controlled).act(ACKNOWLEDGE, chosen, by=ANN, dry_run=True)
    assert (len(dry.changed), dry.is_dry_run) == (2, True)
    assert (await letters_of(controlled).page(OPEN)).total == 3
    done = await letters_of(controlled).act(ACKNOWLEDGE, chosen, Remark(owner="ann"), by=ANN)
    assert done == replace(dry, is_dry_run=False)
    assert [each.id for each in (await letters_of(controlled).page(OPEN)).letters] == [other.id]
    assert len(await controlled.audit(actor="ann")) == 2


async def test_all_of_them_or_none(controlled: ControlledJobs) -> None:
    _, seen = await bury(controlled)
    _, fresh = await bury(controlled)
    letters = letters_of(controlled)
    await letters.acknowledge(seen.id, by=BOB)
    with pytest.raises(Conflict, match="1 of 2 dead letters, so none was changed"):
        await letters.act(ACKNOWLEDGE, LetterFilter(), by=ANN)
    assert (await letters.get(fresh.id)).state is LetterState.OPEN
    done = await letters.act(ACKNOWLEDGE, LetterFilter(), by=ANN, skip_refused=True)
    assert (done.changed, [each.id for each in done.refused]) == ((fresh.id,), [seen.id])
    assert (await letters.get(seen.id)).acknowledged_by == "bob"


async def test_too_many_at_once_are_refused(
    controlled: ControlledJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        await bury(controlled)
    monkeypatch.setattr(control, "MOST_AT_ONCE", 2)
    with pytest.raises(InvalidInput, match="more than 2 letters"):
        await letters_of(controlled).act(DISCARD, LetterFilter())
    assert (await letters_of(controlled).page(OPEN)).total == 3


async def test_a_letter_that_is_not_there(controlled: ControlledJobs) -> None:
    letters = letters_of(controlled)
    for call in (letters.get, letters.acknowledge, letters.requeue, letters.discard):
        with pytest.raises(NotFound, match="no dead letter"):
            await call(99)


@pytest.mark.parametrize("action", LetterAction)
async def test_of_two_at_once_one_is_first_and_the_other_is_told(
    controlled: ControlledJobs, action: LetterAction
) -> None:
    _, letter = await bury(controlled)
    chosen, letters = LetterFilter.one(letter.id), letters_of(controlled)
    done = await asyncio.gather(
        *(letters.act(action, chosen, by=Actor(name)) for name in ("ann", "bob", "cleo")),
        return_exceptions=True,
    )
    refused = [each for each in done if isinstance(each, Conflict)]
    assert (len(done), len(refused)) == (3, 2)
    assert len([entry for entry in await controlled.audit() if entry.action == action]) == 1
    assert len(await controlled.take_all()) == (action is REQUEUE)


async def test_what_cannot_be_carried_out_for_one_is_done_to_none(
    controlled: ControlledJobs,
) -> None:
    """A dedupe key that another job holds by now is found out only when it is written."""
    first, _ = await bury(controlled, payload=1)
    second, _ = await bury(controlled, payload=2)
    key = "update evenbeat.pulse set dedupe_key = 'k' where id = $1"
    await controlled.fetch(key, first.id)
    holder = await controlled.add(due("every 1h"), START + HOUR)
    await controlled.fetch(key, holder.id)
    with pytest.raises(Conflict, match="dedupe key"):
        await letters_of(controlled).act(REQUEUE, OPEN, by=ANN)
    assert (await letters_of(controlled).page(OPEN)).total == 2
    assert (await controlled.find(second)).pulse.state is State.FAILED
    assert await controlled.audit() == []


@pytest.mark.parametrize("action", LetterAction)
async def test_what_was_seen_to_is_not_alerted_on_any_more(
    controlled: ControlledJobs, action: LetterAction
) -> None:
    await bury(controlled)
    await figures.save_figures(controlled.database)
    taken = await figures.read_figures(controlled.database)
    assert taken is not None
    assert taken.open_dead_letters == 1
    await letters_of(controlled).act(action, OPEN)
    await figures.save_figures(controlled.database)
    taken = await figures.read_figures(controlled.database)
    assert taken is not None
    assert (taken.open_dead_letters, taken.oldest_dead_letter.total_seconds()) == (0, 0)
