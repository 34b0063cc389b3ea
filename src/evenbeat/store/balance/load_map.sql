-- The map of the load: what is counted of each job in the coming week (evenbeat.placement), and every
-- change of it in order (evenbeat.load_delta). All writers of the map take one lock, in short
-- transactions that do nothing else. Claims, ends of runs and people's actions never wait for it.

-- name: lock
-- Held until the end of the transaction, so it works behind a pooler. A row and not an advisory lock:
-- every SQL function could take an advisory lock, but to lock a row needs a privilege on its table.
select from evenbeat.placing for update;

-- name: make_lockable
-- Put back the row that is locked, where it was deleted by hand or was missing from a restored dump.
-- If two transactions put it back, the second waits for the first.
insert into evenbeat.placing default values
on conflict (is_it) do nothing;

-- name: read_load_map
-- The whole map with the number of the newest change in it. One row, so that all of it is from one
-- snapshot; arrays, because a client reads them ten times as fast as a million rows.
-- `plain` are intervals that any phase suits. `special` have a timetable that the interval and the
-- phase do not say in full.
select
    coalesce((select max(load_delta.seq) from evenbeat.load_delta), 0) as seq,
    plain.intervals, plain.phases, plain.costs, plain.counts,
    special.intervals as special_intervals, special.phases as special_phases,
    special.costs as special_costs, special.timetables, special.counts as special_counts
from (
    select
        coalesce(array_agg(alike.interval_s), '{}') as intervals,
        coalesce(array_agg(alike.phase_s), '{}') as phases,
        coalesce(array_agg(alike.cost_s), '{}') as costs,
        coalesce(array_agg(alike.count), '{}') as counts
    from (
        select placement.interval_s, placement.phase_s, placement.cost_s, count(*) as count
        from evenbeat.placement
        where placement.timetable is null
        group by placement.interval_s, placement.phase_s, placement.cost_s
    ) as alike
) as plain,
(
    select
        coalesce(array_agg(alike.interval_s), '{}') as intervals,
        coalesce(array_agg(alike.phase_s), '{}') as phases,
        coalesce(array_agg(alike.cost_s), '{}') as costs,
        coalesce(array_agg(alike.timetable::text), '{}') as timetables,
        coalesce(array_agg(alike.count), '{}') as counts
    from (
        select
            placement.interval_s, placement.phase_s, placement.cost_s, placement.timetable,
            count(*) as count
        from evenbeat.placement
        where placement.timetable is not null
        group by
            placement.interval_s, placement.phase_s, placement.cost_s, placement.timetable
    ) as alike
) as special;

-- name: write
-- Write these updates of the map: remove what was counted of each job, count what is right now, and
-- where a phase was chosen, write the timetable and the next beat. A job is left out if it has changed
-- since it was read, or if another transaction holds it. The ids of the written jobs come back.
-- A new timetable raises plan_version, as an edit does: a run in progress then does not write the beat
-- that follows from the old timetable, and nodes read the new one.
-- A writer without the lock passes the change it has :seen, and takes the lock here. Nothing is
-- written if another transaction holds the lock, or if the map has changed since. The sequence is
-- asked for that, and not the table: this statement's snapshot of the table is older than the lock.
-- A change that was rolled back counts as well; the writer then tries once more, with the lock.
-- With :wakes the commit notifies the nodes. Writers of the map commit one after the other anyway.
with locked as materialized (
    select from evenbeat.placing for update skip locked
),
agreed as materialized (
    select coalesce(
        :seen::bigint = coalesce(pg_sequence_last_value('evenbeat.load_delta_seq_seq'), 0), true
    ) as is_so
    from locked
),
asked as materialized (
    select
        given.job_id, given.version, given.plan_version, given.state, given.wanted, given.token,
        given.cursor_at, given.interval_s, given.phase_s, given.cost_s, given.special::jsonb,
        given.timetable::jsonb, given.next_beat_at
    from unnest(
        :job_ids::bigint[], :versions::integer[], :plan_versions::integer[], :states::"char"[],
        :wanted::"char"[], :tokens::bigint[], :cursors::timestamptz[], :intervals::bigint[],
        :phases::bigint[], :costs::integer[], :special::text[], :timetables::text[],
        :next_beats::timestamptz[]
    ) as given (
        job_id, version, plan_version, state, wanted, token, cursor_at, interval_s, phase_s,
        cost_s, special, timetable, next_beat_at
    )
    where (select agreed.is_so from agreed)
),
held as materialized (
    select
        asked.job_id, asked.interval_s, asked.phase_s, asked.cost_s, asked.special,
        asked.timetable, asked.next_beat_at, pulse.plan_version, pulse.run_number
    from asked
    join evenbeat.job on job.id = asked.job_id
    join evenbeat.pulse on pulse.id = asked.job_id
    where job.version = asked.version
      and pulse.plan_version = asked.plan_version
      and pulse.state = asked.state
      and pulse.wanted is not distinct from asked.wanted
      and pulse.token is not distinct from asked.token
      and pulse.next_beat_at is not distinct from asked.cursor_at
    order by job.id
    for no key update of job, pulse skip locked
),
written as (
    update evenbeat.job
    set timetable = held.timetable
    from held
    where job.id = held.job_id
      and held.timetable is not null
),
planned as (
    update evenbeat.pulse
    set next_beat_at = coalesce(held.next_beat_at, pulse.next_beat_at),
        plan_version = pulse.plan_version + 1
    from held
    where pulse.id = held.job_id
      and held.timetable is not null
),
uncounted as (
    delete from evenbeat.placement
    using held
    where placement.job_id = held.job_id
      and held.interval_s is null
),
counted as (
    insert into evenbeat.placement (
        job_id, interval_s, phase_s, cost_s, timetable, placed_at, plan_version, run_number
    )
    select
        held.job_id, held.interval_s, held.phase_s, held.cost_s, held.special,
        case when held.timetable is not null then :now end,
        case when held.timetable is not null then held.plan_version + 1 end,
        case when held.timetable is not null then held.run_number end
    from held
    where held.interval_s is not null
    order by held.job_id
    on conflict (job_id) do update
    set interval_s = excluded.interval_s,
        phase_s = excluded.phase_s,
        cost_s = excluded.cost_s,
        timetable = excluded.timetable,
        placed_at = coalesce(excluded.placed_at, placement.placed_at),
        plan_version = coalesce(excluded.plan_version, placement.plan_version),
        run_number = coalesce(excluded.run_number, placement.run_number)
),
changed as (
    insert into evenbeat.load_delta (job_id, jobs, interval_s, phase_s, cost_s, timetable)
    select delta.job_id, delta.jobs, delta.interval_s, delta.phase_s, delta.cost_s, delta.timetable
    from (
        select
            placement.job_id, -1 as jobs, placement.interval_s, placement.phase_s,
            placement.cost_s, placement.timetable
        from held
        join evenbeat.placement on placement.job_id = held.job_id
        union all
        select held.job_id, 1, held.interval_s, held.phase_s, held.cost_s, held.special
        from held
        where held.interval_s is not null
    ) as delta
    order by delta.job_id, delta.jobs
    returning load_delta.seq
),
unmarked as (
    delete from evenbeat.unplaced
    using held
    where unplaced.job_id = held.job_id
)
select
    coalesce((select agreed.is_so from agreed), false) as is_agreed,
    array(select held.job_id from held) as job_ids,
    (select max(changed.seq) from changed) as seq,
    case
        when :wakes::boolean and exists (select from held) then pg_notify('evenbeat_wake', '')::text
    end;

-- name: remove
-- Remove jobs from the map whose rows have been deleted.
with removed as (
    delete from evenbeat.placement
    where placement.job_id = any (:job_ids::bigint[])
    returning
        placement.job_id, placement.interval_s, placement.phase_s, placement.cost_s,
        placement.timetable
),
unmarked as (
    delete from evenbeat.unplaced
    where unplaced.job_id = any (:job_ids::bigint[])
)
insert into evenbeat.load_delta (job_id, jobs, interval_s, phase_s, cost_s, timetable)
select removed.job_id, -1, removed.interval_s, removed.phase_s, removed.cost_s, removed.timetable
from removed
order by removed.job_id;

-- name: prune_changes
-- Remove all but the newest :keep changes. A process that has seen less reads the whole map again.
-- The newest one always stays, so that a process can tell that it has seen them all.
delete from evenbeat.load_delta
where load_delta.seq <= (
    select max(newest.seq) - :keep::bigint from evenbeat.load_delta as newest
);
