"""Which action is allowed in which state: the whole table, written out by hand."""

from pathlib import Path

import pytest

from evenbeat.core.errors import IllegalTransition
from evenbeat.core.jobs.lifecycle import (
    MEANINGS,
    TRANSITIONS,
    Action,
    Event,
    allowed_actions,
    check_transition,
    draw_lifecycle,
    find_target_states,
    states_allowing,
)
from evenbeat.core.jobs.model import State

DOCS = Path(__file__).parents[3] / "docs" / "reference" / "jobs" / "states.md"

# + allowed, - refused, ? only while a beat or a retry is still to come.
BY_HAND = """
            run pause resume retry cancel release enable disable edit delete
pending     +   +     -      -     +      -       -      +       +    +
scheduled   +   +     -      -     +      -       -      +       +    +
blocked     +   +     -      -     +      -       -      +       +    +
running     -   +     -      -     +      +       -      +       +    +
paused      +   -     +      -     +      -       -      +       +    +
completed   -   -     -      +     -      -       -      -       +    +
failed      +   ?     -      +     ?      -       -      +       +    +
cancelled   -   -     -      +     -      -       -      -       +    +
disabled    +   -     -      -     -      -       +      -       +    +
"""

HEAD, *ROWS = [line.split() for line in BY_HAND.strip().splitlines()]
PAIRS = [
    (state, action, sign)
    for state, *signs in ROWS
    for action, sign in zip(HEAD, signs, strict=True)
]


def test_the_table_by_hand_names_every_state_and_every_action():
    assert [row[0] for row in ROWS] == sorted((row[0] for row in ROWS), key=list(State).index)
    assert {row[0] for row in ROWS} == set(State)
    assert tuple(HEAD) == tuple(Action)


@pytest.mark.parametrize(("state", "action", "sign"), PAIRS)
def test_every_action_in_every_state(state: str, action: str, sign: str):
    assert (action in allowed_actions(State(state), has_next=True)) == (sign in "+?")
    assert (action in allowed_actions(State(state))) == (sign == "+")


@pytest.mark.parametrize(("state", "action", "sign"), PAIRS)
def test_what_is_refused_says_what_is_allowed_instead(state: str, action: str, sign: str):
    if sign == "+":
        check_transition(action, State(state))
        return
    with pytest.raises(IllegalTransition) as caught:
        check_transition(action, State(state))
    assert (caught.value.action, caught.value.state) == (action, state)
    assert caught.value.allowed == allowed_actions(State(state))


def test_a_failed_job_with_a_next_beat_may_be_paused_and_cancelled():
    check_transition("pause", State.FAILED, has_next=True)
    check_transition("cancel", State.FAILED, has_next=True)


# What a job that runs, or is blocked, allows by where it comes to rest afterwards.
BY_HEADING = {
    None: {"pause", "disable", "cancel"},
    State.PAUSED: {"resume", "disable", "cancel"},
    State.DISABLED: {"enable", "cancel"},
    State.CANCELLED: {"cancel"},
}


@pytest.mark.parametrize("heading", BY_HEADING)
@pytest.mark.parametrize("state", [State.RUNNING, State.BLOCKED])
def test_what_was_asked_of_a_run_in_hand_counts_as_if_it_were_done(
    state: State, heading: State | None
):
    asked = {"pause", "resume", "enable", "disable", "cancel"}
    assert asked & set(allowed_actions(state, heading=heading)) == BY_HEADING[heading]


def test_an_unknown_action_is_refused_like_a_wrong_one():
    with pytest.raises(IllegalTransition, match="cannot explode a job that is paused"):
        check_transition("explode", State.PAUSED)


def test_actions_come_in_the_order_of_the_page():
    assert allowed_actions(State.PENDING) == ("run", "pause", "cancel", "disable", "edit", "delete")


def test_a_statement_can_ask_where_its_action_is_allowed():
    assert states_allowing(Action.RETRY) == (State.COMPLETED, State.FAILED, State.CANCELLED)
    assert State.FAILED in states_allowing(Action.CANCEL)
    assert State.FAILED not in states_allowing(Action.CANCEL, has_next=False)


@pytest.mark.parametrize(
    ("action", "state", "leads_to"),
    [
        (Action.PAUSE, State.RUNNING, {"paused"}),
        (Action.RESUME, State.PAUSED, {"pending", "scheduled", "completed", "failed"}),
        (Action.ENABLE, State.DISABLED, {"pending", "scheduled", "completed", "failed"}),
        (Action.RETRY, State.CANCELLED, {"pending", "scheduled"}),
        (Action.RUN, State.PAUSED, {"paused"}),
        (Action.RUN, State.DISABLED, {"disabled"}),
        (Action.RELEASE, State.RUNNING, {"scheduled"}),
        (Action.DELETE, State.RUNNING, set()),
        (Action.RESUME, State.RUNNING, {"running"}),
        (Action.ENABLE, State.PAUSED, set()),
        (Event.CLAIM, State.FAILED, {"running"}),
        (Event.CLAIM, State.BLOCKED, set()),
        (Event.CLAIM, State.CANCELLED, set()),
        (Event.CLAIM, State.COMPLETED, set()),
    ],
)
def test_where_a_way_leads(action: Action | Event, state: State, leads_to: set[str]):
    assert set(find_target_states(action, state)) == leads_to


def test_nothing_but_a_person_brings_a_cancelled_or_completed_job_back():
    over = (State.CANCELLED, State.COMPLETED)
    assert {edge.move for edge in TRANSITIONS if edge.state in over} == {"retry", "edit", "delete"}


def test_no_way_is_written_twice_and_every_one_has_a_meaning():
    pairs = [(edge.state, edge.move) for edge in TRANSITIONS]
    assert len(pairs) == len(set(pairs))
    assert set(MEANINGS) == {*Action, *Event} == {edge.move for edge in TRANSITIONS}


def test_every_state_can_be_reached_and_left():
    reached = {
        target for edge in TRANSITIONS for target in edge.targets if target is not edge.state
    }
    assert reached == set(State)
    assert {edge.state for edge in TRANSITIONS if edge.move is Action.DELETE} == set(State)


def test_the_documentation_shows_the_table_as_it_is():
    _, _, rest = DOCS.read_text().partition("<!-- begin: drawn from the table -->\n")
    shown, _, _ = rest.partition("<!-- end: drawn from the table -->")
    assert shown == draw_lifecycle(), (
        "docs/reference/jobs/states.md is out of date: put what `draw_lifecycle()` returns "
        "between its markers"
    )
