"""A fleet of real nodes, work for them, and two records of it: the tables and the effects."""

import json
import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from evenbeat.control.ops.verify import verify
from evenbeat.store.database.pool import Database
from evenbeat.store.ops import nodes
from tests.support.processes import Process
from tests.support.waiting import eventually

PROGRAM = Path(__file__).with_name("programs") / "node.py"
LEASE = timedelta(seconds=2)
# The machine may be busy with something else; the figures are printed.
MACHINE = timedelta(seconds=4)
# Between the clocks of a handler and of the statement before or after it.
SLACK = 0.05

ADD = """
with born as (
    insert into evenbeat.job (
        uid, kind, payload, timetable, policy, labels, group_key, created_at, updated_at
    )
    select
        gen_random_uuid(), $9, $2, $3, '{"max_attempts": 9}', '{}', $5, $6, $6
    from generate_series(1, $1::integer)
    returning id
),
-- As whoever adds a job that beats: the next node counts it in the map, and leaves it where it is.
marked as (
    insert into evenbeat.unplaced (job_id, beat_count)
    select born.id, -1
    from born
    where $4::"char" = 's'
)
insert into evenbeat.pulse (id, lane_id, group_id, state, state_at, next_beat_at)
select
    born.id,
    (select lane.id from evenbeat.lane where lane.kind = $9),
    (select job_group.id from evenbeat.job_group where job_group.key = $5),
    $4::"char", $6,
    $7::timestamptz + $8::interval * (row_number() over ()) / $1::integer
from born
"""
GROUP = """
insert into evenbeat.job_group (key, max_running, created_at, limits_at)
values ($1, $2, $3, $3) on conflict do nothing
"""
OPEN = """
select count(*) from evenbeat.pulse
where token is not null or is_parked or retry_at is not null
   or state in ('p', 's') and next_beat_at <= statement_timestamp()
"""
RECOVERIES = """
select node.name, lost.started_at, again.started_at as again_at
from evenbeat.run as lost
join evenbeat.run_all as again
    on again.job_id = lost.job_id and again.number = lost.number + 1
join evenbeat.node on node.id = lost.node_id
join evenbeat.pulse on pulse.id = lost.job_id
where lost.error_class = 'lost' and again.state <> 'k' and pulse.group_id is null
"""
RUNS = """
select
    run.id, run.state, run.cause, job.uid::text as job, run.beat_at, run.started_at,
    run.finished_at
from evenbeat.run_all as run
join evenbeat.job on job.id = run.job_id
where run.skipped_until is null
"""


@dataclass
class Fleet:
    """Nodes of one database, by the real clock."""

    database: Database
    environ: Mapping[str, str]
    path: Path
    started: list[Process] = field(default_factory=list)
    # When each process that was killed or frozen was last alive, by its pid.
    gone: dict[int, datetime] = field(default_factory=dict)

    @property
    def effects(self) -> Path:
        return self.path / "effects.jsonl"

    async def start(self, count: int = 1, **more: str) -> list[Process]:
        """Start nodes and wait until they have joined, or died trying."""
        begun = [self.begin(**more) for _ in range(count)]
        for process in begun:
            await eventually(
                lambda p=process: "Node joined" in p.output or p.exit_code is not None,
                "a node that joins",
            )
            assert process.exit_code in (None, -signal.SIGKILL), process.output
        return begun

    def begin(self, **more: str) -> Process:
        environ = {**self.environ, "EFFECTS": str(self.effects), **more}
        program = (sys.executable, PROGRAM)
        process = Process("node", environ=environ, cwd=self.path, program=program)
        self.started.append(process)
        return process

    async def stop(self) -> None:
        """Let every node that lives drain and leave."""
        living = [process for process in self.started if process.exit_code is None]
        for process in living:
            process.signal(signal.SIGTERM)
        for process in living:
            assert await process.ended() == 0, process.output[-3000:]

    async def kill(self, process: Process) -> None:
        process.kill()
        self.gone[process.pid] = await self.now()

    async def freeze(self, process: Process) -> None:
        process.signal(signal.SIGSTOP)
        self.gone[process.pid] = await self.now()

    def clear(self) -> None:
        for process in self.started:
            process.kill()

    async def now(self) -> datetime:
        return await self.value("select clock_timestamp()")

    async def value(self, query: str, *values: Any) -> Any:
        [[value]] = await self.fetch(query, *values)
        return value

    async def fetch(self, query: str, *values: Any) -> list[Any]:
        async with self.database.connection() as connection:
            return await connection.fetch(query, *values)

    # --- work ---------------------------------------------------------------------------------

    async def add(
        self,
        count: int,
        *,
        seconds: float = 0,
        every: timedelta | None = None,
        spread: timedelta = timedelta(0),
        since: timedelta = timedelta(0),
        group: str | None = None,
        limit: int | None = None,
        kind: str = "effect",
    ) -> None:
        """Add jobs at once: due from now, or `since` then, spread evenly over a while."""
        await nodes.open_lanes(self.database, [kind])
        now = await self.now() - since
        first, schedule = now, {"once": now.isoformat()}
        if every is not None:
            interval = int(every.total_seconds())
            schedule = {"every": f"{interval}s", "phase": "0s"}
            first = datetime.fromtimestamp(
                (int(now.timestamp()) // interval + 1) * interval, tz=now.tzinfo
            )
        if group is not None:
            await self.fetch(GROUP, group, limit, now)
        state = "p" if every is None else "s"
        timetable = {"schedule": schedule}
        payload = {"seconds": seconds}
        values = (count, payload, timetable, state.encode(), group, now, first, spread, kind)
        await self.fetch(ADD, *values)
        await self.fetch("select pg_notify('evenbeat_wake', '')")

    async def drained(self, patience: float = 120) -> None:
        """Wait until nothing is due, waits, or is in hand."""
        await eventually(self._is_drained, "the end of the work", patience=patience)

    async def _is_drained(self) -> bool:
        return await self.value(OPEN) == 0

    async def started_runs(self, count: int = 1) -> list[dict[str, Any]]:
        """Wait for this many effects to have begun."""

        def look() -> list[dict[str, Any]]:
            begun = [line for line in self.lines() if line["what"] == "start"]
            return begun if len(begun) >= count else []

        return await eventually(look, f"{count} effects", patience=60)

    # --- checking -----------------------------------------------------------------------------

    def lines(self) -> list[dict[str, Any]]:
        if not self.effects.exists():
            return []
        # A process that was killed may have left half a line, and only the last one.
        lines = self.effects.read_text().splitlines()
        return [json.loads(line) for line in lines if line.endswith("}")]

    async def breaches(self) -> list[str]:
        """What is wrong, by the rules of `verify` and by the effects."""
        found = [str(breach) for breach in await verify(self.database, grace=LEASE + MACHINE)]
        return found + disagreements(await self.fetch(RUNS), self.lines(), set(self.gone))

    async def recoveries(self) -> list[float]:
        """How long after the death of its node each lost run was running again, in seconds.

        Without jobs in groups: those wait their turn there.
        """
        return [
            (row["again_at"] - died_at).total_seconds()
            for row in await self.fetch(RECOVERIES)
            if (died_at := self.gone.get(int(row["name"].rpartition(":")[2]))) is not None
        ]

    async def tell(self, what: str) -> None:
        """Print the figures of a proof."""
        recoveries = await self.recoveries()
        longest = f"{max(recoveries):.2f} s" if recoveries else "none to measure"
        runs = await self.value("select count(*) from evenbeat.run")
        letters = await self.value("select count(*) from evenbeat.dead_letter")
        beats = await self.count_beats()
        print(
            f"\n{what}: {beats} beats, {runs} runs, {len(recoveries)} lost with their node, "
            f"longest recovery {longest} (lease {LEASE}), {letters} dead letters"
        )
        assert all(each <= (LEASE + MACHINE).total_seconds() for each in recoveries), recoveries

    async def count_beats(self) -> int:
        """Beats that were run or passed over."""
        return await self.value(
            "select count(distinct (job_id, beat_at)) filter (where skipped_until is null)"
            " + coalesce(sum(skipped_count) filter (where skipped_until is not null), 0)"
            " from evenbeat.run where beat_at is not null"
        )

    async def deadlocks(self) -> int:
        return await self.value(
            "select deadlocks from pg_stat_database where datname = current_database()"
        )


def most_at_once(lines: list[dict[str, Any]]) -> int:
    """How many effects there were at once, at the most."""
    running = most = 0
    for line in sorted(lines, key=lambda line: line["at"]):
        running += 1 if line["what"] == "start" else -1
        most = max(most, running)
    return most


def disagreements(
    runs: list[Any], lines: list[dict[str, Any]], gone: set[int], most: int = 20
) -> list[str]:
    """Where the tables and the effects do not tell the same story.

    Two effects of one job may overlap, and one may outlast its run, only where its process had
    been killed or frozen: handlers that run inside the node are fenced when they write.
    """
    boot = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    starts = {line["run"]: line for line in lines if line["what"] == "start"}
    ends = {line["run"]: line for line in lines if line["what"] == "end"}
    rows = {row["id"]: row for row in runs}
    found = [f"effect of run {run}, which no table knows" for run in starts.keys() - rows.keys()]
    found += [
        f"run {row['id']} is completed and had no effect"
        for row in runs
        if row["state"] == b"c" and row["id"] not in ends
    ]
    if len(starts) != sum(line["what"] == "start" for line in lines):
        found.append("a run had its effect twice")
    by_job: dict[str, list[tuple[float, float, int]]] = defaultdict(list)
    for run, start in starts.items():
        if start["pid"] in gone:
            continue
        began = start["at"] + boot
        ended = ends[run]["at"] + boot if run in ends else began
        by_job[start["job"]].append((began, ended, run))
        row = rows.get(run)
        if row is None:
            continue
        if began < row["started_at"].timestamp() - SLACK:
            found.append(f"effect of run {run} began before the run")
        if row["finished_at"] and ended > row["finished_at"].timestamp() + SLACK:
            found.append(f"effect of run {run} ended after the run")
    for job, effects in by_job.items():
        effects.sort()
        found += [
            f"effects of runs {first[2]} and {second[2]} of job {job} overlap"
            for first, second in pairwise(effects)
            if second[0] < first[1]
        ]
    return found[:most]


def environ_for(url: str, path: Path) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "EVENBEAT_DATABASE_URL": url,
        "EVENBEAT_DATA_DIR": str(path / "home"),
        "EVENBEAT_CHECK_INTERVAL": "200ms",
        "EVENBEAT_STALE_CHECK_INTERVAL": "200ms",
        "EVENBEAT_LEASE_DURATION": f"{int(LEASE.total_seconds())}s",
        "EVENBEAT_DRAIN_TIMEOUT": "10s",
        "EVENBEAT_POOL_SIZE": "5",
        "EVENBEAT_LOG_LEVEL": "info",
    }
