"""Why a job is not running: the sentence, in every state and circumstance."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from evenbeat.core.jobs.model import AfterFailure, Policy, State
from evenbeat.core.ops.explain import ExplanationContext, explain_job
from tests.core.given import HOURLY, ONCE, SECOND, at, job

NOW = at(12)
SOON, LATE = at(12, 12), at(11, 30)
DEAD = ExplanationContext(live_nodes=0, serving_nodes=0)
FOREIGN = ExplanationContext(live_nodes=2, serving_nodes=0)
BUSY = "every node that serves echo is busy."
NO_NODE = "No node is alive: start one."
NO_KIND = "No live node serves the kind echo: start one that does."
BY_HAND = "The run asked for by hand"
FAILED = "Failed 2 hours ago, with no attempt left."
BLOCKED = "Blocked: its group is full. It runs as soon as a place is free."
PAUSED, DISABLED = "Paused 2 hours ago", "Disabled 2 hours ago"
COMPLETED = "Completed 2 hours ago: nothing more is to come. Retry runs it once more."
CANCELLED = "Cancelled 2 hours ago: it does not run again unless it is retried."
RUNNING = "Running for 2 hours, attempt 1 of 3."

AHEAD, OVERDUE = {"next_beat_at": SOON}, {"next_beat_at": LATE}
RETRY = {"next_beat_at": LATE, "retry_at": SOON, "attempt": 1}
MANUAL = {"next_beat_at": SOON, "manual_at": LATE}
PULSES = {"ahead": AHEAD, "overdue": OVERDUE, "retry": RETRY, "manual": MANUAL}
COMES = "comes in 12 minutes, at 2026-03-01 12:12:00 UTC."

# What is to come is told the same way in every state that waits for it.
WAITING = {
    "ahead": f"The next run {COMES}",
    "overdue": f"The next run is 30 minutes late: {BUSY}",
    "retry": f"The retry (attempt 2 of 3) {COMES}",
    "manual": f"{BY_HAND} is 30 minutes late: {BUSY}",
    "no node": f"The next run has been due for 30 minutes. {NO_NODE}",
    "no kind": f"The next run has been due for 30 minutes. {NO_KIND}",
}
STAYS = "It stays as it is then."
LATE_BLOCK = f"{BLOCKED} It has been due for 30 minutes."


def aside(what: str, until: str) -> dict[str, str]:
    rest = f"{what}: nothing runs until it is {until}."
    by_hand = f"{what}, but the run asked for by hand is 30 minutes late: {BUSY} {STAYS}"
    return dict.fromkeys(WAITING, rest) | {"manual": by_hand}


SENTENCES: dict[State, dict[str, str]] = {
    State.PENDING: {name: text.replace("next run", "run") for name, text in WAITING.items()},
    State.SCHEDULED: WAITING,
    State.FAILED: {name: f"{FAILED} {text}" for name, text in WAITING.items()},
    State.BLOCKED: {
        "ahead": BLOCKED,
        "overdue": LATE_BLOCK,
        "retry": BLOCKED,
        "manual": LATE_BLOCK,
        "no node": f"{LATE_BLOCK} {NO_NODE}",
        "no kind": f"{LATE_BLOCK} {NO_KIND}",
    },
    State.PAUSED: aside(PAUSED, "resumed"),
    State.DISABLED: aside(DISABLED, "enabled"),
    State.COMPLETED: dict.fromkeys(WAITING, COMPLETED),
    State.CANCELLED: dict.fromkeys(WAITING, CANCELLED),
    State.RUNNING: dict.fromkeys(WAITING, RUNNING)
    | {"manual": f"{RUNNING} It was asked to run by hand once more after that."},
}


def test_every_state_is_explained():
    assert set(SENTENCES) == set(State)


@pytest.mark.parametrize(
    ("state", "case", "sentence"),
    [(state, case, text) for state, cases in SENTENCES.items() for case, text in cases.items()],
)
def test_the_sentence_of_every_state_in_every_circumstance(state: State, case: str, sentence: str):
    pulse: dict[str, Any] = {"attempt": 1} | PULSES.get(case, OVERDUE)
    timetable = ONCE if state is State.PENDING else HOURLY
    around = {"no node": DEAD, "no kind": FOREIGN}.get(case, ExplanationContext())
    waiting = job(state, timetable, state_at=at(10), **pulse)
    assert explain_job(waiting, NOW, around) == sentence


@pytest.mark.parametrize("second", [0, 30])
def test_a_job_that_is_just_due_starts_any_moment(second: int):
    text = explain_job(job(State.SCHEDULED, next_beat_at=at(11, 59, second)), NOW)
    assert text == "The next run is due and starts any moment now."


def test_a_run_ahead_says_already_that_nobody_will_be_there_for_it():
    text = explain_job(job(State.SCHEDULED, next_beat_at=SOON), NOW, FOREIGN)
    assert text == f"The next run {COMES} {NO_KIND}"


def test_a_paused_job_asked_to_run_by_hand_says_that_no_node_is_there():
    text = explain_job(job(State.PAUSED, manual_at=LATE, state_at=at(10)), NOW, DEAD)
    due = "the run asked for by hand has been due for 30 minutes."
    assert text == f"{PAUSED}, but {due} {NO_NODE} {STAYS}"


def test_what_comes_first_is_told_a_retry_going_before_its_own_beat():
    both = {"next_beat_at": LATE, "retry_at": SOON, "manual_at": at(12, 30), "attempt": 1}
    assert explain_job(job(State.SCHEDULED, **both), NOW).startswith("The retry")
    both["manual_at"] = at(12, 5)
    assert explain_job(job(State.SCHEDULED, **both), NOW).startswith(BY_HAND)


def test_a_failed_job_without_a_next_beat_needs_a_retry():
    text = explain_job(job(State.FAILED, ONCE, state_at=at(10)), NOW)
    assert text == (
        "Failed 2 hours ago, with no attempt left: it does not run again unless it is retried."
    )


def test_a_job_that_stopped_on_failure_says_so():
    failed = job(State.FAILED, state_at=at(10))
    stops = Policy(after_failure=AfterFailure.STOP)
    text = explain_job(replace(failed, definition=replace(failed.definition, policy=stops)), NOW)
    assert "and stopped, because after_failure is stop: it does not run again" in text
    assert "stopped" not in explain_job(failed, NOW)


def test_a_manual_run_in_hand_is_not_said_to_come_once_more():
    text = explain_job(job(State.RUNNING, manual_at=at(9), state_at=at(10), attempt=1), NOW)
    assert text == RUNNING


def test_a_job_without_a_beat_says_what_to_do():
    text = explain_job(job(State.SCHEDULED), NOW)
    assert text == "Waiting, but no beat is planned: edit its schedule or run it by hand."


def test_a_running_job_says_where_and_since_when():
    around = ExplanationContext(running_on="node-a", running_since=at(11, 56, 48))
    text = explain_job(job(State.RUNNING, attempt=2), NOW, around)
    assert text == "Running on node-a for 3 minutes 12 seconds, attempt 2 of 3."


def test_a_blocked_job_says_by_what():
    text = explain_job(
        job(State.BLOCKED), NOW, ExplanationContext(blocked_by="2 of 2 places of reports")
    )
    assert text == "Blocked: 2 of 2 places of reports. It runs as soon as a place is free."


@pytest.mark.parametrize("case", ["overdue", "manual"])
def test_during_maintenance_whatever_is_due_says_so(case: str):
    around = ExplanationContext(maintenance="new disks")
    text = explain_job(job(State.SCHEDULED, **PULSES[case]), NOW, around)
    assert text.endswith(
        "has been due for 30 minutes."
        " Maintenance is on (new disks): nothing starts until it is switched off."
    )


@pytest.mark.parametrize(
    ("ahead", "words"),
    [
        (timedelta(milliseconds=400), "a moment"),
        (12 * SECOND, "12 seconds"),
        (timedelta(minutes=3, seconds=12, milliseconds=7), "3 minutes 12 seconds"),
        (timedelta(hours=3, minutes=5, seconds=12), "3 hours 5 minutes"),
        (timedelta(days=2, hours=5, minutes=59), "2 days 5 hours"),
    ],
)
def test_lengths_are_no_finer_than_one_can_take_in(ahead: timedelta, words: str):
    text = explain_job(job(State.SCHEDULED, next_beat_at=NOW + ahead), NOW)
    assert text.startswith(f"The next run comes in {words}, at ")
