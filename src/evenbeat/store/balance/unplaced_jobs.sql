-- Jobs that wait to be placed (evenbeat.unplaced), as placement reads them: with what the map counts of
-- them now, and with the changes of the map since the process last read it.

-- fragment: is_undecided
-- Whether more beats come depends on the run in progress, or on a manual run that waits.
:follows_schedule
and pulse.next_beat_at is null
and coalesce(pulse.token, extract(epoch from pulse.manual_at)) is not null

-- fragment: job_columns
-- A job, and what the map counts of it.
    unplaced.job_id, unplaced.beat_count as marked_count, job.uid, job.version,
    job.timetable::text as timetable, coalesce((:is_counted), false) as is_counted,
    coalesce((:is_undecided), false) as is_undecided,
    pulse.state, pulse.wanted, pulse.next_beat_at, pulse.retry_at, pulse.token, pulse.beat_at,
    pulse.token is not null and pulse.cause <> 'm' as is_beating, pulse.beat_count,
    pulse.run_number, pulse.plan_version, :mean_duration_s::float8 as cost, placement.interval_s,
    placement.phase_s, placement.cost_s, placement.timetable::text as counted_timetable

-- fragment: map_changes
-- The changes of the map since :seen, with the oldest and the newest one that are kept. Null where
-- there are more than :most: reading the whole map is then faster.
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
-- Mark these jobs as waiting to be placed; with :anew at any phase. beat_count is what pulse.beat_count
-- will be when an overdue retry or the run in progress has ended: up to then the job may get any phase.
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
-- Mark those of these jobs that the map still counts: they may have no beat left. A job that was
-- resumed in the meantime keeps the mark it has.
insert into evenbeat.unplaced (job_id, beat_count)
select placement.job_id, -1
from evenbeat.placement
where placement.job_id = any (:job_ids::bigint[])
order by placement.job_id
on conflict (job_id) do nothing;

-- name: is_any_unplaced
select exists (select from evenbeat.unplaced);

-- fragment: unplaced_columns
-- A job that waits. The changes of the map come from the same snapshot, and only with the first row.
    :job_columns, :now as at, news.oldest, news.newest,
    case when row_number() over (order by unplaced.job_id) = 1 then news.changes end as changes

-- name: unplaced
-- The next :limit jobs that wait, by id: older jobs have smaller ids.
select
    :unplaced_columns
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

-- name: unplaced_among
-- Those of these jobs that wait.
select
    :unplaced_columns
from evenbeat.job
join evenbeat.unplaced on unplaced.job_id = job.id
join evenbeat.pulse on pulse.id = job.id
left join evenbeat.placement on placement.job_id = job.id
cross join (
    :map_changes
) as news
where job.uid = any (:uids::uuid[])
order by job.id;

-- name: by_ids
-- These jobs, whether they wait or not.
select
    :job_columns
from (select unnest(:job_ids::bigint[]) as job_id, 0 as beat_count) as unplaced
join evenbeat.job on job.id = unplaced.job_id
join evenbeat.pulse on pulse.id = unplaced.job_id
left join evenbeat.placement on placement.job_id = unplaced.job_id
order by unplaced.job_id;

-- name: mark_mismatches
-- Of the next :limit jobs, mark those that the map counts wrongly: jobs that should be counted and are
-- not, or the other way round, jobs that have been deleted, and jobs whose runs take a quarter longer
-- or shorter than is counted. They keep their phase. Returns the last id of the page, or null if this
-- was the last page.
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
    where (:is_counted) <> (placement.job_id is not null)
       or placement.job_id is not null
       and :mean_duration_s not between placement.cost_s * 0.8 - 1 and placement.cost_s * 1.25 + 1
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
