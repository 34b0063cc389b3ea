"""Jobs by the ten thousand, written straight into the tables."""

from datetime import UTC, datetime

import asyncpg

LANE = """
    insert into evenbeat.lane (kind) values ($1) on conflict do nothing
"""
# Named recurring jobs, as a busy installation has them; due at once by default.
FILL = """
    with new_job as (
        insert into evenbeat.job (
            uid, name, kind, payload, timetable, policy, labels, group_key, created_at, updated_at
        )
        select gen_random_uuid(), $7 || n, $2, jsonb_build_object('n', n),
            jsonb_build_object(
                'schedule', jsonb_build_object('every', $3::text, 'phase', $4::text)
            ),
            '{}', '{}', $6, now(), now()
        from generate_series(1, $1::integer) as n
        returning id
    ),
    -- In the map of the load from the start, as added jobs are.
    mapped as (
        insert into evenbeat.placement (job_id, interval_s, phase_s, cost_s)
        select new_job.id, $8, $9, 1 from new_job
    )
    insert into evenbeat.pulse (id, lane_id, state, state_at, next_beat_at, group_id)
    select new_job.id, lane.id, 's', now(), $5::timestamptz,
        (select id from evenbeat.job_group where key = $6)
    from new_job, evenbeat.lane
    where lane.kind = $2
"""


async def fill(
    url: str,
    count: int,
    *,
    kind: str = "noop",
    every: str = "1d",
    beat_at: datetime | None = None,
    group: str | None = None,
    name: str = "job",
) -> None:
    beat = beat_at or datetime.now(UTC).replace(microsecond=0)
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(LANE, kind)
        interval_s = seconds_of(every)
        phase_s = int(beat.timestamp()) % interval_s
        await connection.execute(
            FILL, count, kind, every, f"{phase_s}s", beat, group, name, interval_s, phase_s
        )
        await connection.execute("analyze evenbeat.pulse; analyze evenbeat.job")
    finally:
        await connection.close()


def seconds_of(every: str) -> int:
    return int(every[:-1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[every[-1]]
