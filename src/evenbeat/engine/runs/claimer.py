"""The claimer: takes due jobs for this node, as many as it can start at once."""

import secrets
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from evenbeat.core.runs.outcome import HandedBack
from evenbeat.engine.bell import Bell
from evenbeat.engine.runs.recorder import EndedRun, Recorder
from evenbeat.observe import failpoint
from evenbeat.observe.metrics import Metrics
from evenbeat.store.database.pool import Database
from evenbeat.store.jobs.jobs import DefinitionCache
from evenbeat.store.ops import nodes
from evenbeat.store.ops.nodes import Lane
from evenbeat.store.runs import leases
from evenbeat.store.runs.leases import HeldRun, NextDue

# A claim is one statement whatever its size; larger ones only hold their locks longer.
LARGEST_CLAIM = 500
# Something is due that cannot be had, since its row is locked: worth a pause, not a spin.
DENIED = timedelta(milliseconds=50)
# A statement whose answer was lost may still be under way: the server ends it after 4.5 seconds,
# but lets its commit wait for a standby.
LAST_DOUBT = 35.0
# A claim that takes longer than this, and this for each job, steps over much that is gone.
SLOW = 0.01
SLOW_EACH = 0.0002
# A slow look at all turns is made again after so many times what it took, but not later than that.
LOOK_BACK_AFTER = 20
LONGEST_LOOK_BACK = 10.0
CLAIM_ANSWER_LOST = HandedBack("the answer to the claim was lost")
NOW = timedelta(0)


@dataclass(frozen=True, slots=True)
class FreeSlots:
    """How many more runs a node can take: of handlers that wait, and of those that never do."""

    waiting: int
    instant: int


class Claimer:
    """Claims no more than there is room for: a lease never waits for a place."""

    def __init__(
        self,
        database: Database,
        recorder: Recorder,
        *,
        node_id: int,
        start: Callable[[Sequence[HeldRun]], None],
        room: Callable[[], FreeSlots],
        left: Callable[[], dict[str, int]],
        is_served: Callable[[Lane], bool],
        is_instant: Callable[[str], bool],
        on_grouped: Callable[[], None],
        check_interval: timedelta,
        metrics: Metrics,
    ) -> None:
        self.bell = Bell()
        self._database = database
        self._recorder = recorder
        self._node_id = node_id
        self._start = start
        self._room = room
        # How many more can be started of kinds that have a limit of their own.
        self._left = left
        self._is_served = is_served
        self._is_instant = is_instant
        self._on_grouped = on_grouped
        self._check_interval = check_interval
        self._metrics = metrics
        self._definitions = DefinitionCache()
        self._instant: list[Lane] = []
        self._waiting: list[Lane] = []
        self._lane_count = 0
        # The lanes that had something to claim the last time, and whether one may have more.
        self._busy: set[int] = set()
        self._is_more = False
        self._has_waited = False
        self._is_grouped_due = False
        self._is_in_doubt = False
        self._last_look_at: float | None = None
        # Even where there is always more to claim: else nobody hears of groups and new lanes.
        self._look_ahead_at = 0.0
        # From which turn on there is something, by lane; turns before it are looked at now and
        # then, since retries, priorities and runs that were handed back come with old ones.
        self._turns: dict[int, datetime] = {}
        self._look_back_at = 0.0

    async def find_lanes(self) -> None:
        """Claim, from now on, for whatever lanes this node serves."""
        lanes = await nodes.list_lanes(self._database)
        served = [lane for lane in lanes if self._is_served(lane)]
        self._instant = [lane for lane in served if self._is_instant(lane.kind)]
        self._waiting = [lane for lane in served if not self._is_instant(lane.kind)]
        self._lane_count = len(lanes)

    async def turn(self) -> timedelta:
        """Claim once and start what was claimed; says how long to wait until the next turn."""
        await self._look_after_claims()
        places = self._places()
        if not places:
            return self._check_interval
        tried_grouped, claimed, self._is_more = self._is_grouped_due, 0, False
        second: leases.ClaimFunction = leases.claim_due
        if tried_grouped:
            # Half each, and the odd place by lot, so that neither the grouped nor the others
            # ever wait for the other sort. By turns, they could be the turns of the lanes.
            sorts: list[leases.ClaimFunction] = [leases.claim_due, leases.claim_grouped]
            first, second = reversed(sorts) if secrets.randbits(1) else sorts
            half = {lane: (count + 1) // 2 for lane, count in places.items()}
            claimed = await self._claim(first, half)
            if claimed:
                places = {lane: count - half[lane] for lane, count in places.items()}
        claimed += await self._claim(second, places)
        if tried_grouped:
            self._on_grouped()
        if self._is_more and time.monotonic() < self._look_ahead_at:
            return NOW
        soonest = await self._look_ahead()
        if soonest > NOW:
            return soonest
        return NOW if claimed or self._is_grouped_due > tried_grouped else DENIED

    def _places(self) -> dict[int, int]:
        """The room dealt out to the lanes. They take turns at being first, so that none starves."""
        room = self._room()
        # Full for now: the recorder rings the bell in a few milliseconds, and then there is room
        # for all. If there is still none, it may be held up for long, and the others are served.
        self._has_waited = bool(self._instant) and not room.instant and not self._has_waited
        if self._has_waited:
            return {}
        for lanes in (self._instant, self._waiting):
            if lanes:
                lanes.append(lanes.pop(0))
        waiting = deal_slots(room.waiting, self._open(self._waiting), self._busy)
        return deal_slots(room.instant, self._instant, self._busy) | self._limited(waiting)

    def _open(self, lanes: list[Lane]) -> list[Lane]:
        """Without those of a kind of which no more can be started."""
        shut = {kind for kind, left in self._left().items() if left <= 0}
        return [lane for lane in lanes if lane.kind not in shut] if shut else lanes

    def _limited(self, places: dict[int, int]) -> dict[int, int]:
        """No more of a kind than its limit leaves, in all its lanes together."""
        left = self._left()
        for lane in self._waiting if left else ():
            if lane.kind in left and lane.id in places:
                places[lane.id] = min(places[lane.id], left[lane.kind])
                left[lane.kind] -= places[lane.id]
        return places

    async def _claim(self, claim: leases.ClaimFunction, places: dict[int, int]) -> int:
        if not any(places.values()):
            return 0
        failpoint.reach("before_claim")
        self._is_in_doubt = True
        since, began = self._since(), time.monotonic()
        held = await claim(
            self._database,
            self._node_id,
            token=secrets.randbits(62),
            places=places,
            definitions=self._definitions,
            since=since,
        )
        self._is_in_doubt = False
        self._note_turns(held)
        if since is None:
            self._note_time(time.monotonic() - began, len(held))
        self._metrics.count_claim(len(held))
        if held:
            failpoint.reach("claimed")
            counts = Counter(each.lane_id for each in held)
            self._busy = set(counts)
            # Lanes that had nothing are asked for one: what they leave over says nothing.
            self._is_more = any(count >= places[lane] for lane, count in counts.items())
            self._recorder.watch.set_time(held[0].run.started_at)
            self._start(held)
        return len(held)

    async def _look_ahead(self) -> timedelta:
        """How long until something is due, at most until the next check."""
        # What is due in a lane that is shut is looked for when a run of its kind ends.
        lane_ids = [lane.id for lane in (*self._instant, *self._open(self._waiting))]
        longest = self._check_interval
        self._look_ahead_at = time.monotonic() + longest.total_seconds()
        coming: NextDue = await leases.find_next_due(
            self._database, lane_ids, horizon=longest, since=self._since()
        )
        self._is_grouped_due = coming.grouped_in is not None and coming.grouped_in <= NOW
        if coming.lane_count != self._lane_count:
            await self.find_lanes()
            return NOW
        return min([*coming.waits(), longest])

    def _since(self) -> leases.Turns | None:
        """None: look at all turns."""
        return None if time.monotonic() >= self._look_back_at else self._turns

    def _note_turns(self, held: Sequence[HeldRun]) -> None:
        """What comes before the first of them was claimed, is held, or is not due."""
        turns: dict[int, datetime] = {}
        for each in held:
            if each.turn_at is not None:
                turns[each.lane_id] = min(each.turn_at, turns.get(each.lane_id, each.turn_at))
        self._turns |= turns

    def _note_time(self, took: float, count: int) -> None:
        """After a look at all turns: when to make the next one."""
        if took > SLOW + SLOW_EACH * count:
            pause = min(took * LOOK_BACK_AFTER, LONGEST_LOOK_BACK)
            self._look_back_at = time.monotonic() + pause

    async def hand_back_unknown(self) -> None:
        """Hand back what this node holds by the database's word and does not know of."""
        known = set(self._recorder.in_hand)
        held = await leases.list_node_runs(self._database, self._node_id)
        unknown = [each for each in held if each.run.id not in known]
        if unknown:
            await self._recorder.write(
                [EndedRun(each, CLAIM_ANSWER_LOST, None) for each in unknown]
            )

    async def _look_after_claims(self) -> None:
        """A claim that was made but never answered has to be found, else nobody runs the job."""
        if self._is_in_doubt:
            await self.hand_back_unknown()
            self._is_in_doubt = False
            self._last_look_at = time.monotonic() + LAST_DOUBT
        elif self._last_look_at is not None and time.monotonic() >= self._last_look_at:
            await self.hand_back_unknown()
            self._last_look_at = None


def deal_slots(count: int, lanes: list[Lane], busy: set[int]) -> dict[int, int]:
    """So many places for these lanes, the earlier ones first.

    A lane that had nothing the last time is asked for one: that shows whether it has any now,
    and leaves the places to those that can use them.
    """
    asked = [lane.id for lane in lanes[: max(count, 0)]]
    hungry = [lane for lane in asked if lane in busy] or asked
    if not hungry:
        return {}
    each, rest = divmod(count - (len(asked) - len(hungry)), len(hungry))
    shares = {lane: each + (turn < rest) for turn, lane in enumerate(hungry)}
    return {lane: shares.get(lane, 1) for lane in asked}
