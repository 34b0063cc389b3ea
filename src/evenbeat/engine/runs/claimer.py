"""The claimer: takes due jobs for this node, as many as it can start at once."""

import secrets
import time
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

from evenbeat.core.jobs.model import HeldRun
from evenbeat.core.runs.outcome import HandedBack
from evenbeat.engine.bell import Bell
from evenbeat.engine.runs.recorder import EndedRun, Recorder
from evenbeat.engine.runs.slots import Slots
from evenbeat.observe import failpoint
from evenbeat.observe.metrics import Metrics
from evenbeat.store.database.pool import Database
from evenbeat.store.jobs.jobs import DefinitionCache
from evenbeat.store.ops import nodes
from evenbeat.store.ops.nodes import Lane
from evenbeat.store.runs import leases
from evenbeat.store.runs.leases import NextDue

# A job is due and its row is locked: worth a pause, not a busy loop.
DENIED = timedelta(milliseconds=50)
# A statement whose answer was lost may still be under way: the server ends it after 4.5 seconds,
# but its commit may wait longer for a standby.
LONGEST_UNANSWERED = 35.0
# A claim that takes longer than this, and this for each job, steps over many dead rows.
SLOW = 0.01
SLOW_EACH = 0.0002
# A slow claim from the first turn on is repeated after so many times what it took, and not later
# than the limit.
REPEAT_SLOW_AFTER = 20
LONGEST_REPEAT_PAUSE = 10.0
CLAIM_ANSWER_LOST = HandedBack("the answer to the claim was lost")
NOW = timedelta(0)


class Claimer:
    """Claims no more than there are free slots: a leased job never waits for a slot."""

    def __init__(
        self,
        database: Database,
        recorder: Recorder,
        slots: Slots,
        *,
        node_id: int,
        bell: Bell,
        gate_bell: Bell,
        check_interval: timedelta,
        metrics: Metrics,
    ) -> None:
        """`bell` ends a pause of this loop; `gate_bell` is rung when jobs may have been parked."""
        self.bell = bell
        self._database = database
        self._recorder = recorder
        self._slots = slots
        self._node_id = node_id
        self._gate_bell = gate_bell
        self._check_interval = check_interval
        self._metrics = metrics
        self._definitions = DefinitionCache()
        self._lanes: list[Lane] = []
        self._lane_count = 0
        # The lanes from which the last claim took jobs, and whether one of them may have more.
        self._busy: set[int] = set()
        self._is_more = False
        self._is_grouped_due = False
        # A claim was sent and not answered: the node may hold runs that it does not know of.
        self._is_in_doubt = False
        self._check_doubt_at: float | None = None
        # Even while every claim finds more: else new lanes and due groups would not be noticed.
        self._look_ahead_at = 0.0
        # By lane: the turn from which on there are jobs. Earlier turns are read now and then,
        # since retries, priorities and runs that were handed back come with early turns.
        self._turns: dict[int, datetime] = {}
        self._read_all_turns_at = 0.0

    async def find_lanes(self) -> None:
        """Read which lanes there are; from now on, claim from those that this node serves."""
        lanes = await nodes.list_lanes(self._database)
        self._lanes = [lane for lane in lanes if self._slots.serves(lane)]
        self._lane_count = len(lanes)

    async def turn(self) -> timedelta:
        """Claim once and start what was claimed; returns how long to wait until the next turn."""
        await self._hand_back_after_doubt()
        places = self._places()
        if not places:
            return self._check_interval
        tried_grouped, claimed, self._is_more = self._is_grouped_due, 0, False
        second: leases.ClaimFunction = leases.claim_due
        if tried_grouped:
            # Half of the slots each, and the odd one by lot, so that neither sort of jobs waits
            # for the other. If they took turns, these could coincide with the turns of the lanes.
            sorts: list[leases.ClaimFunction] = [leases.claim_due, leases.claim_grouped]
            first, second = reversed(sorts) if secrets.randbits(1) else sorts
            half = {lane: (count + 1) // 2 for lane, count in places.items()}
            claimed = await self._claim(first, half)
            if claimed:
                places = {lane: count - half[lane] for lane, count in places.items()}
        claimed += await self._claim(second, places)
        if tried_grouped:
            self._gate_bell.ring()
        if self._is_more and time.monotonic() < self._look_ahead_at:
            return NOW
        soonest = await self._look_ahead()
        if soonest > NOW:
            return soonest
        return NOW if claimed or self._is_grouped_due > tried_grouped else DENIED

    def _places(self) -> dict[int, int]:
        """How many jobs to claim from each lane. The lanes take turns at being first."""
        if self._lanes:
            self._lanes.append(self._lanes.pop(0))
        open_lanes = self._open_lanes()
        return self._limit_kinds(deal_slots(self._slots.count_free(), open_lanes, self._busy))

    def _open_lanes(self) -> list[Lane]:
        """The lanes without those of a kind that has reached its limit."""
        full = {kind for kind, free in self._slots.count_free_by_kind().items() if free <= 0}
        return [lane for lane in self._lanes if lane.kind not in full] if full else self._lanes

    def _limit_kinds(self, places: dict[int, int]) -> dict[int, int]:
        """Claim no more of a kind than its limit allows, from all of its lanes together."""
        free = self._slots.count_free_by_kind()
        for lane in self._lanes if free else ():
            if lane.kind in free and lane.id in places:
                places[lane.id] = min(places[lane.id], free[lane.kind])
                free[lane.kind] -= places[lane.id]
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
        self._remember_turns(held)
        if since is None:
            self._plan_full_read(time.monotonic() - began, len(held))
        self._metrics.count_claim(len(held))
        if held:
            failpoint.reach("claimed")
            counts = Counter(each.lane_id for each in held)
            self._busy = set(counts)
            # A lane that gave as many as it was asked for may have more.
            self._is_more = any(count >= places[lane] for lane, count in counts.items())
            self._recorder.watch.set_time(held[0].run.started_at)
            self._slots.start(held)
        return len(held)

    async def _look_ahead(self) -> timedelta:
        """How long until something is due, at most until the next check."""
        # Lanes of a kind at its limit are left out: they are read again when such a run ends.
        lane_ids = [lane.id for lane in self._open_lanes()]
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
        """None: read all turns."""
        return None if time.monotonic() >= self._read_all_turns_at else self._turns

    def _remember_turns(self, held: Sequence[HeldRun]) -> None:
        """Jobs with an earlier turn than these were claimed before, are locked, or are not due."""
        turns: dict[int, datetime] = {}
        for each in held:
            if each.turn_at is not None:
                turns[each.lane_id] = min(each.turn_at, turns.get(each.lane_id, each.turn_at))
        self._turns |= turns

    def _plan_full_read(self, took: float, count: int) -> None:
        """After a claim that read all turns: decide when to make the next one."""
        if took > SLOW + SLOW_EACH * count:
            pause = min(took * REPEAT_SLOW_AFTER, LONGEST_REPEAT_PAUSE)
            self._read_all_turns_at = time.monotonic() + pause

    async def hand_back_unknown(self) -> None:
        """Hand back the runs that the database says this node holds and the node does not know."""
        known = set(self._recorder.in_hand)
        held = await leases.list_node_runs(self._database, self._node_id)
        unknown = [each for each in held if each.run.id not in known]
        if unknown:
            await self._recorder.write(
                [EndedRun(each, CLAIM_ANSWER_LOST, None) for each in unknown]
            )

    async def _hand_back_after_doubt(self) -> None:
        """If the answer to a claim was lost, its jobs are leased and no node runs them."""
        if self._is_in_doubt:
            await self.hand_back_unknown()
            self._is_in_doubt = False
            self._check_doubt_at = time.monotonic() + LONGEST_UNANSWERED
        elif self._check_doubt_at is not None and time.monotonic() >= self._check_doubt_at:
            await self.hand_back_unknown()
            self._check_doubt_at = None


def deal_slots(count: int, lanes: list[Lane], busy: set[int]) -> dict[int, int]:
    """Divide so many slots among these lanes, the earlier ones first.

    A lane that had no job at the last claim is asked for one: that shows whether it has any now,
    and leaves the slots to the lanes that can use them.
    """
    asked = [lane.id for lane in lanes[: max(count, 0)]]
    sharing = [lane for lane in asked if lane in busy] or asked
    if not sharing:
        return {}
    each, rest = divmod(count - (len(asked) - len(sharing)), len(sharing))
    shares = {lane: each + (turn < rest) for turn, lane in enumerate(sharing)}
    return {lane: shares.get(lane, 1) for lane in asked}
