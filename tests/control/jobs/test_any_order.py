"""People and nodes in any order: whatever they do, no rule is broken and no beat runs twice."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from evenbeat.core.errors import Conflict, InvalidInput
from evenbeat.core.jobs.groups import Group
from evenbeat.core.jobs.lifecycle import Action
from evenbeat.core.jobs.model import Claimed, Job
from evenbeat.core.runs.outcome import Cancelled, HandedBack, Lost, Skipped, Snoozed
from evenbeat.core.time.timetable import TimetableBounds
from evenbeat.store.database import clock
from evenbeat.store.database.pool import Database
from evenbeat.store.jobs import groups
from tests.conftest import START
from tests.control.controlled_jobs import ControlledJobs, due, open_controlled_jobs
from tests.store.given import DONE, FAILED, MINUTE
from tests.support import databases

JOBS = 4
OUTCOMES = [
    DONE,
    FAILED,
    Lost(),
    HandedBack(),
    Snoozed(timedelta(minutes=5)),
    Cancelled("given up"),
    Skipped("too late"),
]
SCHEDULES = ["every 10m", "every 7m", "*/15 * * * *", "once 2030-01-01T14:00:00Z", "now"]
GROUPS = [None, Group("a", max_running=1), Group("b", max_running=1)]
ACTIONS = [action for action in Action if action not in (Action.EDIT, Action.DELETE)]
which = st.integers(0, JOBS - 1)


class AnyOrderOfActions(RuleBasedStateMachine):
    """Four jobs in two groups, one node, and people who do what they like."""

    loop: asyncio.AbstractEventLoop
    url: str

    @initialize(schedules=st.lists(st.sampled_from(SCHEDULES), min_size=JOBS, max_size=JOBS))
    def open(self, schedules: list[str]) -> None:
        self.do(self._open(schedules))

    async def _open(self, schedules: list[str]) -> None:
        await databases.empty(self.url)
        self.database = Database(self.url, clock="set")
        await self.database.open()
        self.now = START
        await clock.set_test_clock(self.database, self.now)
        self.controlled: ControlledJobs = await open_controlled_jobs(self.database)
        policy = {"max_attempts": 2, "pause_after_failures": 2}
        self.jobs: list[Job] = [
            await self.controlled.add(due(each, policy=policy, group=GROUPS[place % 3]))
            for place, each in enumerate(schedules)
        ]
        self.in_hand: list[Claimed] = []

    def do(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    @rule(place=which, action=st.sampled_from(ACTIONS))
    def act(self, place: int, action: Action) -> None:
        self.attempt(getattr(self.controlled.jobs, action)(self.jobs[place].uid))

    @rule(place=which, schedule=st.sampled_from(SCHEDULES), most=st.none() | st.integers(1, 3))
    def edit_schedule(self, place: int, schedule: str, most: int | None) -> None:
        timetable = replace(due(schedule).timetable, bounds=TimetableBounds(max_runs=most))
        self.attempt(self.controlled.edit(self.jobs[place], timetable=timetable))

    @rule(place=which, group=st.sampled_from(GROUPS))
    def edit_group(self, place: int, group: Group | None) -> None:
        self.attempt(self.controlled.edit(self.jobs[place], group=group))

    def attempt(self, work: Any) -> None:
        # What people do and when a run began are told apart by their instants.
        self.pass_time(timedelta(milliseconds=1))
        try:
            self.do(work)
        except (Conflict, InvalidInput):
            # Not now: that is an answer too.
            self.refused = True

    @rule(minutes=st.sampled_from([1, 5, 11, 45]))
    def wait(self, minutes: int) -> None:
        self.pass_time(minutes * MINUTE)

    def pass_time(self, length: timedelta) -> None:
        self.now += length
        self.do(clock.set_test_clock(self.database, self.now))

    @rule()
    def claim(self) -> None:
        self.pass_time(timedelta(milliseconds=1))
        self.in_hand += self.do(self.controlled.take_all())

    @rule(outcome=st.sampled_from(OUTCOMES))
    def end(self, outcome: Any) -> None:
        if self.in_hand:
            self.do(self._end(self.in_hand.pop(0), outcome))

    async def _end(self, claimed: Claimed, outcome: Any) -> None:
        written = await self.controlled.write(claimed, outcome=outcome)
        if written.group_ids:
            await groups.unpark_jobs(self.database, written.group_ids)

    def teardown(self) -> None:
        if not hasattr(self, "controlled"):
            return
        try:
            breaches = self.do(self.controlled.breaches())
            assert breaches == [], breaches
        finally:
            self.do(self.database.close())


def test_whatever_people_and_nodes_do_no_rule_is_broken(database_url: str) -> None:
    loop = asyncio.new_event_loop()
    office = type("OfficeOfThisTest", (AnyOrderOfActions,), {"loop": loop, "url": database_url})
    try:
        run_state_machine_as_test(
            office,
            settings=settings(
                max_examples=30,
                stateful_step_count=25,
                suppress_health_check=list(HealthCheck),
            ),
        )
    finally:
        loop.close()
