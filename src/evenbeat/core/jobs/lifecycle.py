"""The states of a job and every way from one to another, as one table.

`draw_lifecycle` makes of it what docs/reference/jobs/states.md shows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from evenbeat.core.errors import IllegalTransition
from evenbeat.core.jobs.model import State

PENDING, SCHEDULED, BLOCKED = State.PENDING, State.SCHEDULED, State.BLOCKED
RUNNING, PAUSED, DISABLED = State.RUNNING, State.PAUSED, State.DISABLED
COMPLETED, FAILED, CANCELLED = State.COMPLETED, State.FAILED, State.CANCELLED


class Action(StrEnum):
    """What people may do to a job, in the order in which a page offers it."""

    RUN = "run"
    PAUSE = "pause"
    RESUME = "resume"
    RETRY = "retry"
    CANCEL = "cancel"
    RELEASE = "release"
    ENABLE = "enable"
    DISABLE = "disable"
    EDIT = "edit"
    DELETE = "delete"


class Event(StrEnum):
    """What the engine does to a job."""

    CLAIM = "claim"
    BLOCK = "block"
    UNBLOCK = "unblock"
    COMPLETE = "complete"
    FAIL = "fail"
    EXHAUST = "exhaust"
    GIVE_UP = "give up"
    SNOOZE = "snooze"
    HAND_BACK = "hand back"
    REAP = "reap"
    SKIP = "skip"
    STAND_DOWN = "stand down"


@dataclass(frozen=True, slots=True)
class Transition:
    """One way out of a state: more than one target where the job itself decides.

    No target at all means that the job is gone. `needs_next` edges are open only while
    something is still to come by itself: a beat, a retry. Those with `headings` are open only
    while the job heads for one of these states when its run ends; None: for where the run says.
    """

    state: State
    move: Action | Event
    targets: tuple[State, ...]
    needs_next: bool = False
    headings: tuple[State | None, ...] | None = None


MEANINGS: Mapping[Action | Event, str] = {
    Action.RUN: "run once, now; the schedule is not touched",
    Action.PAUSE: "keep the schedule, run nothing of it; a run in hand finishes first",
    Action.RESUME: "take the schedule up again; completed or failed when no beat is left",
    Action.RETRY: "run once more, now, with the attempts counted anew",
    Action.CANCEL: "end the job, and the run in hand with it",
    Action.RELEASE: "take the run from its node; it begins again and is not counted",
    Action.ENABLE: "let a disabled job take part again",
    Action.DISABLE: "take the job out until it is enabled; a run in hand finishes first",
    Action.EDIT: "change the definition; a run in hand keeps the old one",
    Action.DELETE: "remove the job and stop its run; its history stays",
    Event.CLAIM: "a node takes the job; from paused and disabled only for a manual run",
    Event.BLOCK: "its group is full; from paused and disabled only for a manual run",
    Event.UNBLOCK: "a place in its group is free",
    Event.COMPLETE: "the work is done; completed when no beat is left",
    Event.FAIL: "an attempt failed and another one waits",
    Event.EXHAUST: "the last attempt failed; paused after `pause_after_failures` such beats",
    Event.GIVE_UP: "the handler cancels its beat; a one-off job is cancelled by that",
    Event.SNOOZE: "the handler asks for the same attempt later",
    Event.HAND_BACK: "the node stops; the run is not counted",
    Event.REAP: "the node died; failed after three losses or the last attempt",
    Event.SKIP: "the beat came too late to be run",
    Event.STAND_DOWN: "a manual run of a paused or disabled job ends, or one meanwhile paused, "
    "disabled or cancelled",
}

_WAITING = (PENDING, SCHEDULED)
_CLAIMABLE = (*_WAITING, FAILED)
_SUSPENDED = (PAUSED, DISABLED)


def _transitions(
    move: Action | Event,
    states: Iterable[State],
    *to: State,
    headings: tuple[State | None, ...] | None = None,
) -> tuple[Transition, ...]:
    return tuple(Transition(state, move, to, headings=headings) for state in states)


def _self_transitions(move: Action, states: Iterable[State]) -> tuple[Transition, ...]:
    return tuple(Transition(state, move, (state,)) for state in states)


TRANSITIONS: tuple[Transition, ...] = (
    # A running job is refused because a job never overlaps itself. What is over is retried, not
    # run: that also brings its schedule back.
    *_self_transitions(Action.RUN, (*_CLAIMABLE, BLOCKED, PAUSED, DISABLED)),
    *_transitions(Action.PAUSE, _WAITING, PAUSED),
    *_transitions(Action.PAUSE, (BLOCKED, RUNNING), PAUSED, headings=(None,)),
    # A failed job that has no next beat has nothing to pause or to cancel.
    Transition(FAILED, Action.PAUSE, (PAUSED,), needs_next=True),
    *_transitions(Action.RESUME, (PAUSED,), *_WAITING, COMPLETED, FAILED),
    # What was asked of a run in hand is taken back, and a run by hand goes on.
    *(
        Transition(state, Action.RESUME, (state,), headings=(PAUSED,))
        for state in (BLOCKED, RUNNING)
    ),
    *_transitions(Action.RETRY, (COMPLETED, FAILED, CANCELLED), *_WAITING),
    *_transitions(Action.CANCEL, (*_WAITING, BLOCKED, RUNNING, PAUSED), CANCELLED),
    Transition(FAILED, Action.CANCEL, (CANCELLED,), needs_next=True),
    *_transitions(Action.RELEASE, (RUNNING,), SCHEDULED),
    *_transitions(Action.ENABLE, (DISABLED,), *_WAITING, COMPLETED, FAILED),
    *(
        Transition(state, Action.ENABLE, (state,), headings=(DISABLED,))
        for state in (BLOCKED, RUNNING)
    ),
    *_transitions(Action.DISABLE, (*_CLAIMABLE, PAUSED), DISABLED),
    *_transitions(Action.DISABLE, (BLOCKED, RUNNING), DISABLED, headings=(None, PAUSED)),
    # Pending and scheduled: a one-off job was made a recurring one, or the other way round.
    # Blocked: its group may be another one, so it queues anew.
    *_transitions(Action.EDIT, _WAITING, *_WAITING),
    *_transitions(Action.EDIT, (BLOCKED,), *_CLAIMABLE, *_SUSPENDED),
    *_self_transitions(Action.EDIT, (RUNNING, PAUSED, COMPLETED, FAILED, CANCELLED, DISABLED)),
    *_transitions(Action.DELETE, State),
    *_transitions(Event.CLAIM, (*_CLAIMABLE, *_SUSPENDED), RUNNING),
    *_transitions(Event.BLOCK, (*_CLAIMABLE, *_SUSPENDED), BLOCKED),
    *_transitions(Event.UNBLOCK, (BLOCKED,), *_CLAIMABLE, *_SUSPENDED),
    # Pending again: a one-off job that was run by hand ahead of its time.
    *_transitions(Event.COMPLETE, (RUNNING,), COMPLETED, SCHEDULED, PENDING),
    *_transitions(Event.FAIL, (RUNNING,), SCHEDULED),
    *_transitions(Event.EXHAUST, (RUNNING,), FAILED, PAUSED),
    # Failed: the beat before had failed, and only success clears that.
    *_transitions(Event.GIVE_UP, (RUNNING,), CANCELLED, SCHEDULED, PENDING, FAILED, COMPLETED),
    *_transitions(Event.SNOOZE, (RUNNING,), SCHEDULED),
    *_transitions(Event.HAND_BACK, (RUNNING,), SCHEDULED),
    *_transitions(Event.REAP, (RUNNING,), SCHEDULED, FAILED, PAUSED),
    *_transitions(Event.SKIP, (RUNNING,), SCHEDULED, FAILED, COMPLETED),
    *_transitions(Event.STAND_DOWN, (RUNNING,), *_SUSPENDED, CANCELLED),
)

_BY_PAIR: Mapping[tuple[State, Action | Event], Transition] = {
    (edge.state, edge.move): edge for edge in TRANSITIONS
}


def allowed_actions(
    state: State, *, has_next: bool = False, heading: State | None = None
) -> tuple[str, ...]:
    """What people may do to a job in this state.

    `has_next`: a beat or a retry is to come; `heading`: where it comes to rest when its run ends.
    """
    return tuple(action.value for action in Action if _is_allowed(action, state, has_next, heading))


def check_transition(
    action: str, state: State, *, has_next: bool = False, heading: State | None = None
) -> None:
    """Raise IllegalTransition, with what is allowed instead, unless `action` is allowed."""
    allowed = allowed_actions(state, has_next=has_next, heading=heading)
    if action not in allowed:
        raise IllegalTransition(action, state, allowed)


def find_target_states(move: Action | Event, state: State) -> tuple[State, ...]:
    """The states that `move` may lead to; none if there is no such way."""
    edge = _BY_PAIR.get((state, move))
    return edge.targets if edge else ()


def states_allowing(action: Action, *, has_next: bool = True) -> tuple[State, ...]:
    """Where an action may be allowed: what its statement checks again while it writes."""
    edges = [_BY_PAIR.get((state, action)) for state in State]
    return tuple(edge.state for edge in edges if edge and (has_next or not edge.needs_next))


def _is_allowed(action: Action, state: State, has_next: bool, heading: State | None) -> bool:
    edge = _BY_PAIR.get((state, action))
    if edge is None or (edge.needs_next and not has_next):
        return False
    return edge.headings is None or heading in edge.headings


def draw_lifecycle() -> str:
    """The table as Markdown: a diagram, what people may do, what the engine does."""
    return "\n".join([*_diagram(), "", *_people(), "", *_meanings(Action), "", *_engine(), ""])


def _diagram() -> list[str]:
    labels: dict[tuple[State, State], list[str]] = {}
    for edge in TRANSITIONS:
        for target in edge.targets:
            if target is not edge.state:
                labels.setdefault((edge.state, target), []).append(edge.move)
    lines = [f"    {a} --> {b}: {', '.join(moves)}" for (a, b), moves in labels.items()]
    starts = [f"    [*] --> {state}" for state in _WAITING]
    return ["```mermaid", "stateDiagram-v2", *starts, *lines, "```"]


def _people() -> list[str]:
    head = ["| state |", "|---|"]
    rows = [f"| {state} |" for state in State]
    for action in Action:
        head = [f"{head[0]} {action} |", f"{head[1]}---|"]
        rows = [
            f"{row} {_cell(_BY_PAIR.get((state, action)))} |"
            for row, state in zip(rows, State, strict=True)
        ]
    notes = [
        "\\* only while a beat or a retry is still to come.",
        "",
        "† depends on where the job comes to rest when its run ends: pause if nothing was asked",
        "yet, disable also if it is to be paused, resume if it is to be paused, enable if it is to",
        "be disabled.",
    ]
    return [*head, *rows, "", *notes]


def _cell(edge: Transition | None) -> str:
    if edge is None:
        return "–"
    words = " or ".join(edge.targets) if edge.targets else "gone"
    marks = "*" * edge.needs_next + "†" * (edge.headings is not None)
    return f"{'stays' if edge.targets == (edge.state,) else words}{marks}"


def _meanings(moves: Iterable[Action]) -> list[str]:
    return [f"- **{move}**: {MEANINGS[move]}." for move in moves]


def _engine() -> list[str]:
    head = ["| the engine | from | to | when |", "|---|---|---|---|"]
    return head + [_engine_row(event) for event in Event]


def _engine_row(event: Event) -> str:
    edges = [edge for edge in TRANSITIONS if edge.move is event]
    came_from = ", ".join(edge.state for edge in edges)
    leads_to = ", ".join(dict.fromkeys(to for edge in edges for to in edge.targets))
    return f"| {event} | {came_from} | {leads_to} | {MEANINGS[event]} |"
