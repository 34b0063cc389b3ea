-- Where jobs are in the map of the coming week. The map changes under one lock, in short
-- transactions that do nothing else: neither claims nor ends of runs nor people wait for it.

-- fragment: is_undecided
-- Whether it is for the run in hand, or one by hand that waits, to say if more beats come.
:may_beat
and pulse.next_beat_at is null
and coalesce(pulse.token, extract(epoch from pulse.manual_at)) is not null

-- fragment: cost
-- How long a run takes on average, as far as the last month tells.
(
    select sum(run_day.duration_ms) / nullif(sum(run_day.completed), 0) / 1000.0
    from evenbeat.run_day
    where run_day.job_id = unplaced.job_id
      and run_day.day > (:now at time zone 'UTC')::date - 30
)

-- fragment: job_to_place_columns
-- A job as a placement finds it, and what is counted of it.
    unplaced.job_id, unplaced.beat_count as marked_count, job.uid, job.version,
    job.timetable::text as timetable, coalesce((:is_counted), false) as is_counted,
    coalesce((:is_undecided), false) as is_undecided,
    pulse.state, pulse.wanted, pulse.next_beat_at, pulse.retry_at, pulse.token, pulse.beat_at,
    pulse.token is not null and pulse.cause <> 'm' as is_beating, pulse.beat_count,
    pulse.run_number, pulse.plan_version, :cost::float8 as cost, placement.interval_s,
    placement.phase_s, placement.cost_s, placement.timetable::text as counted_timetable

-- name: lock
-- Of the transaction, so that it works behind a pooler. All who write the map hold it, and nobody
-- else can: an advisory lock would be open to every SQL function.
select from evenbeat.placing for update;

-- name: make_lockable
-- The row that is locked, where it was removed by hand or left out of what was restored. Of two who
-- put it back, one waits for the other.
insert into evenbeat.placing default values
on conflict (is_it) do nothing;

-- name: read_load_map
-- The whole map, and the newest change in it: in one row, so that it is of one moment, and as
-- arrays, which are read ten times as fast as a million rows.
select
    coalesce((select max(load_delta.seq) from evenbeat.load_delta), 0) as seq,
    plain.intervals, plain.phases, plain.costs, plain.counts,
    apart.intervals as apart_intervals, apart.phases as apart_phases, apart.costs as apart_costs,
    apart.timetables, apart.counts as apart_counts
from (
    select
        coalesce(array_agg(alike.interval_s), '{}') as intervals, coalesce(array_agg(alike.phase_s), '{}') as phases,
        coalesce(array_agg(alike.cost_s), '{}') as costs, coalesce(array_agg(alike.count), '{}') as counts
    from (
        select placement.interval_s, placement.phase_s, placement.cost_s, count(*) as count
        from evenbeat.placement
        where placement.timetable is null
        group by placement.interval_s, placement.phase_s, placement.cost_s
    ) as alike
) as plain,
(
    select
        coalesce(array_agg(alike.interval_s), '{}') as intervals, coalesce(array_agg(alike.phase_s), '{}') as phases,
        coalesce(array_agg(alike.cost_s), '{}') as costs, coalesce(array_agg(alike.timetable::text), '{}') as timetables,
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
) as apart;

-- fragment: map_changes
-- What has changed since :seen and which changes are kept. Not where there are many: reading them
-- takes longer than reading the whole map.
    select
        kept.oldest, kept.newest,
        case
            when kept.newest - :seen::bigint <= :most::bigint then (
                select
                    jsonb_agg(
                        jsonb_build_array(
                            load_delta.seq, load_delta.jobs, load_delta.interval_s,
                            load_delta.phase_s, load_delta.cost_s, load_delta.timetable::text
                        )
                        order by load_delta.seq
                    )
                from evenbeat.load_delta
                where load_delta.seq > :seen
            )
        end as changes
    from (
        select min(load_delta.seq) as oldest, max(load_delta.seq) as newest from evenbeat.load_delta
    ) as kept

-- name: changes
:map_changes;

-- name: mark
-- These jobs are to be placed, anew with :anew; an owed beat, or one in hand, is still to count.
insert into evenbeat.unplaced (job_id, beat_count)
select
    pulse.id,
    case when :anew::boolean then pulse.beat_count + (
        pulse.retry_at is not null or pulse.token is not null and pulse.cause <> 'm'
    )::integer else -1 end
from evenbeat.pulse
where pulse.id = any (:job_ids::bigint[])
order by pulse.id
on conflict (job_id) do update set beat_count = excluded.beat_count;

-- name: mark_ended
-- Those of these jobs that are still in the map may be there for nothing. One that somebody has
-- taken up again meanwhile keeps its mark.
insert into evenbeat.unplaced (job_id, beat_count)
select placement.job_id, -1
from evenbeat.placement
where placement.job_id = any (:job_ids::bigint[])
order by placement.job_id
on conflict (job_id) do nothing;

-- name: is_any_unplaced
select exists (select from evenbeat.unplaced);

-- fragment: unplaced_job_columns
-- A job that is to be placed and, for the ring to be that of the same moment, with the first one
-- all that has changed since.
    :job_to_place_columns, :now as at, news.oldest, news.newest,
    case when row_number() over (order by unplaced.job_id) = 1 then news.changes end as changes

-- name: unplaced
-- Those that wait longest, more or less: ids grow with time.
select
    :unplaced_job_columns
from evenbeat.unplaced
left join evenbeat.job on job.id = unplaced.job_id
left join evenbeat.pulse on pulse.id = unplaced.job_id
left join evenbeat.placement on placement.job_id = unplaced.job_id
cross join (
    :map_changes
) as news
where unplaced.job_id > :after
order by unplaced.job_id
limit :limit;

-- name: unplaced_of
-- Those of these jobs that are to be placed.
select
    :unplaced_job_columns
from evenbeat.job
join evenbeat.unplaced on unplaced.job_id = job.id
join evenbeat.pulse on pulse.id = job.id
left join evenbeat.placement on placement.job_id = job.id
cross join (
    :map_changes
) as news
where job.uid = any (:uids::uuid[])
order by job.id;

-- name: write
-- Put these jobs where they belong: withdraw what was counted, count what is right, and where a
-- phase was chosen write it with its next beat. One that has changed since it was looked at, or
-- that somebody holds, is left for the next time; those that were written come back.
-- A new plan, as by an edit: a run in hand will not write the beat that follows from the old one,
-- and nodes read the timetable anew.
-- Who does not hold the lock says what it has :seen, and gets it here: nothing is written where
-- somebody else has it, or where the map has changed since. That is asked of the sequence, which is
-- as it is now: what this statement sees of tables is older than the lock. A change that was
-- undone counts too, which costs no more than asking again with the lock.
-- With :wakes the nodes hear of it at its commit. Those who place go one after the other anyway.
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
        given.cursor_at, given.interval_s, given.phase_s, given.cost_s, given.apart::jsonb,
        given.timetable::jsonb, given.next_beat_at
    from unnest(
        :job_ids::bigint[], :versions::integer[], :plan_versions::integer[], :states::"char"[],
        :wanted::"char"[], :tokens::bigint[], :cursors::timestamptz[], :intervals::bigint[],
        :phases::bigint[], :costs::integer[], :aparts::text[], :timetables::text[],
        :next_beats::timestamptz[]
    ) as given (
        job_id, version, plan_version, state, wanted, token, cursor_at, interval_s, phase_s,
        cost_s, apart, timetable, next_beat_at
    )
    where (select agreed.is_so from agreed)
),
held as materialized (
    select
        asked.job_id, asked.interval_s, asked.phase_s, asked.cost_s, asked.apart,
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
gone as (
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
        held.job_id, held.interval_s, held.phase_s, held.cost_s, held.apart,
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
told as (
    insert into evenbeat.load_delta (job_id, jobs, interval_s, phase_s, cost_s, timetable)
    select changed.job_id, changed.jobs, changed.interval_s, changed.phase_s, changed.cost_s,
        changed.timetable
    from (
        select
            placement.job_id, -1 as jobs, placement.interval_s, placement.phase_s,
            placement.cost_s, placement.timetable
        from held
        join evenbeat.placement on placement.job_id = held.job_id
        union all
        select held.job_id, 1, held.interval_s, held.phase_s, held.cost_s, held.apart
        from held
        where held.interval_s is not null
    ) as changed
    order by changed.job_id, changed.jobs
    returning load_delta.seq
),
done as (
    delete from evenbeat.unplaced
    using held
    where unplaced.job_id = held.job_id
)
select
    coalesce((select agreed.is_so from agreed), false) as is_agreed,
    array(select held.job_id from held) as job_ids,
    (select max(told.seq) from told) as seq,
    case
        when :wakes::boolean and exists (select from held) then pg_notify('evenbeat_wake', '')::text
    end;

-- name: forget
-- Jobs that are gone altogether leave the map.
with gone as (
    delete from evenbeat.placement
    where placement.job_id = any (:job_ids::bigint[])
    returning
        placement.job_id, placement.interval_s, placement.phase_s, placement.cost_s,
        placement.timetable
),
done as (
    delete from evenbeat.unplaced
    where unplaced.job_id = any (:job_ids::bigint[])
)
insert into evenbeat.load_delta (job_id, jobs, interval_s, phase_s, cost_s, timetable)
select gone.job_id, -1, gone.interval_s, gone.phase_s, gone.cost_s, gone.timetable
from gone
order by gone.job_id;

-- fragment: candidate
-- Instants are compared as they are written, which sorts them: one that nobody can read stops nothing.
    job.id, job.uid, job.name, pulse.next_beat_at, pulse.token is not null as is_running,
    coalesce(
        job.timetable #>> '{place,until}' collate "C"
        > to_char(:now at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS'), false
    ) as is_moving

-- name: candidates
-- All that is in the map, or of one group, a page at a time.
select
    :candidate, placement.placed_at, placement.interval_s, placement.phase_s, placement.cost_s,
    placement.timetable::text as timetable
from evenbeat.placement
join evenbeat.job on job.id = placement.job_id
join evenbeat.pulse on pulse.id = placement.job_id
where placement.job_id > :after
  and (:group_key::text is null or job.group_key = :group_key)
order by placement.job_id
limit :limit;

-- name: candidates_without_map
-- The same from the jobs themselves, for when no map is kept.
select
    :candidate, placement.placed_at, job.timetable::text as timetable, :cost::float8 as cost
from evenbeat.job
join evenbeat.pulse on pulse.id = job.id
cross join lateral (select job.id as job_id) as unplaced
left join evenbeat.placement on placement.job_id = job.id
where job.id > :after
  and :is_counted
  and (:group_key::text is null or job.group_key = :group_key)
order by job.id
limit :limit;

-- name: jobs_to_place
-- These jobs, whether they are to be placed or not.
select
    :job_to_place_columns
from (select unnest(:job_ids::bigint[]) as job_id, 0 as beat_count) as unplaced
join evenbeat.job on job.id = unplaced.job_id
join evenbeat.pulse on pulse.id = unplaced.job_id
left join evenbeat.placement on placement.job_id = unplaced.job_id
order by unplaced.job_id;

-- name: reconcile
-- Of the next :limit jobs, mark those that the map has wrong: that have ended or begun without
-- anybody telling, are gone, or take a quarter longer or shorter than is counted. They stay where
-- they are. Says how far it came; null: that was the end.
with page as materialized (
    select pulse.id
    from evenbeat.pulse
    where pulse.id > :after
    order by pulse.id
    limit :limit
),
span as (
    select case when count(*) = :limit then max(page.id) end as until
    from page
),
wrong as (
    select page.id as job_id
    from page
    join evenbeat.job on job.id = page.id
    join evenbeat.pulse on pulse.id = page.id
    left join evenbeat.placement on placement.job_id = page.id
    cross join lateral (select page.id as job_id) as unplaced
    where (:is_counted) <> (placement.job_id is not null)
       or placement.job_id is not null
       and :cost not between placement.cost_s * 0.8 - 1 and placement.cost_s * 1.25 + 1
    union all
    select placement.job_id
    from evenbeat.placement, span
    where placement.job_id > :after
      and placement.job_id <= coalesce(span.until, placement.job_id)
      and not exists (select from evenbeat.pulse where pulse.id = placement.job_id)
),
marked as (
    insert into evenbeat.unplaced (job_id, beat_count)
    select wrong.job_id, -1
    from wrong
    order by wrong.job_id
    on conflict (job_id) do nothing
    returning unplaced.job_id
)
select span.until, (select count(*) from marked) as count
from span;

-- name: prune
-- Changes that everybody has seen long ago; who has not reads the map anew. The newest stays, so
-- that who has seen all can tell.
delete from evenbeat.load_delta
where load_delta.seq <= (
    select max(newest.seq) - :keep::bigint from evenbeat.load_delta as newest
);
