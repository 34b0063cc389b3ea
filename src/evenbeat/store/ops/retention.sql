-- Counting runs into days, and removing old rows. Runs are read by their key, oldest first: claims take
-- ids from a sequence, so no index on time is needed. Every statement here is one small piece of work.
-- The larger ones return how many milliseconds they took in the server: a busy node would measure
-- much more.

-- name: newest_id
-- The last run id that was taken from the sequence; 0 before the first.
select case when run_id.is_called then run_id.last_value else run_id.last_value - 1 end
from evenbeat.run_id;

-- name: closed_ids
-- Which runs of this piece are in the history. The others are in progress, or their claim failed.
select run.id
from evenbeat.run
where run.id > :after
  and run.id <= :until
order by run.id;

-- name: next_closed_id
select run.id
from evenbeat.run
where run.id > :after
order by run.id
limit 1;

-- name: in_hand_ids
-- Reads every pulse: used only where the history has a wide gap, and once a day.
select pulse.run_id as id
from evenbeat.pulse
where pulse.token is not null
  and pulse.run_id > :after
  and pulse.run_id <= :until
order by pulse.run_id;

-- name: remember_late
insert into evenbeat.late_run (id)
select late.id
from unnest(:ids::bigint[]) as late (id)
order by late.id
on conflict (id) do nothing;

-- name: closed_late
select late_run.id
from evenbeat.late_run
join evenbeat.run on run.id = late_run.id
order by late_run.id
limit :limit;

-- name: forget_late
delete from evenbeat.late_run
where late_run.id = any (:ids::bigint[]);

-- name: stray_late
-- Ids of claims that failed: neither in the history nor in progress.
select late_run.id
from evenbeat.late_run
where late_run.id > :after
except
select run.id
from evenbeat.late_run
join evenbeat.run on run.id = late_run.id
except
select pulse.run_id
from evenbeat.pulse
where pulse.token is not null
limit :limit;

-- name: count_runs
-- Add these runs to their days and totals. Each run comes here exactly once, in the transaction that
-- moves the cursor past it or removes it from the late ones. Not done by the completion: there, an
-- upsert for each run would slow every run down.
with counted as materialized (
    select
        (run.started_at at time zone 'UTC')::date as day,
        coalesce(job.kind, '') as kind,
        coalesce(job.group_key, '') as group_key,
        case when :is_recurring then job.id else 0 end as job_id,
        count(*) filter (where run.state = 'c') as completed,
        count(*) filter (where run.state = 'f') as failed,
        count(*) filter (where run.error_class = 'lost') as lost,
        count(*) filter (where run.state = 'x') as cancelled,
        coalesce(sum(run.skipped_count), 0) as skipped,
        count(*) filter (where run.cause = 't') as retried,
        coalesce(sum(run.duration_ms) filter (where run.state = 'c'), 0) as duration_ms,
        coalesce(max(run.duration_ms) filter (where run.state = 'c'), 0) as longest_ms,
        coalesce(sum(run.items_crawled), 0) as items_crawled,
        coalesce(sum(run.items_indexed), 0) as items_indexed
    from evenbeat.run
    left join evenbeat.job on job.id = run.job_id
    where run.id = any (:ids::bigint[])
    group by 1, 2, 3, 4
),
days as (
    insert into evenbeat.run_day as d (
        day, kind, group_key, job_id, completed, failed, lost, cancelled, skipped, retried,
        duration_ms, longest_ms, items_crawled, items_indexed
    )
    select
        counted.day, counted.kind, counted.group_key, counted.job_id, counted.completed,
        counted.failed, counted.lost, counted.cancelled, counted.skipped, counted.retried,
        counted.duration_ms, counted.longest_ms, counted.items_crawled, counted.items_indexed
    from counted
    order by counted.day, counted.kind, counted.group_key, counted.job_id
    on conflict (day, kind, group_key, job_id) do update
    set completed = d.completed + excluded.completed,
        failed = d.failed + excluded.failed,
        lost = d.lost + excluded.lost,
        cancelled = d.cancelled + excluded.cancelled,
        skipped = d.skipped + excluded.skipped,
        retried = d.retried + excluded.retried,
        duration_ms = d.duration_ms + excluded.duration_ms,
        longest_ms = greatest(d.longest_ms, excluded.longest_ms),
        items_crawled = d.items_crawled + excluded.items_crawled,
        items_indexed = d.items_indexed + excluded.items_indexed
    returning d.day
),
totals as (
    insert into evenbeat.run_total as t (kind, completed, failed, lost, cancelled, skipped)
    select
        counted.kind, sum(counted.completed), sum(counted.failed), sum(counted.lost),
        sum(counted.cancelled), sum(counted.skipped)
    from counted
    group by counted.kind
    order by counted.kind
    on conflict (kind) do update
    set completed = t.completed + excluded.completed,
        failed = t.failed + excluded.failed,
        lost = t.lost + excluded.lost,
        cancelled = t.cancelled + excluded.cancelled,
        skipped = t.skipped + excluded.skipped
    returning t.kind
)
select
    (select count(*) from days) as day_count,
    (select count(*) from totals) as kind_count,
    extract(epoch from clock_timestamp() - statement_timestamp())::float8 * 1000 as ms;

-- name: old_runs
-- Which runs of this piece may be removed: those that are older than :keep_for and not among the :keep
-- newest of their job. The job's own counter says which are newest; a removed job has no newest runs.
-- A run that has not been counted into its day stays.
-- The oldest runs of a job go first, so that its history never has a hole: where an older run stays,
-- or is before this piece, the job's other runs wait for the next sweep.
with piece as materialized (
    select run.id, run.job_id, run.number, run.started_at, run.finished_at
    from evenbeat.run
    where run.id > :after
      and run.id <= (select chore.cursor from evenbeat.chore where chore.name = 'count')
    order by run.id
    limit :limit
),
judged as materialized (
    select
        piece.id,
        bool_and(
            piece.finished_at < :now - :keep_for::interval
            and (pulse.id is null or piece.number <= pulse.run_number - :keep)
            and late_run.id is null
        ) over (partition by piece.job_id order by piece.number) as may_go,
        first_value(piece.number) over (partition by piece.job_id order by piece.number) as first,
        piece.job_id
    from piece
    left join evenbeat.pulse on pulse.id = piece.job_id
    left join evenbeat.late_run on late_run.id = piece.id
),
-- A run that started within :keep_for has ended within it too: this run and all later ones stay.
young as (
    select min(piece.id) as id
    from piece
    where piece.started_at >= :now - :keep_for::interval
)
select
    (select max(piece.id) from piece) as last_id,
    (select count(*) from piece) as seen,
    young.id as young_id,
    array(
        select judged.id
        from judged
        where judged.may_go
          and not exists (
              select from evenbeat.run as older
              where older.job_id = judged.job_id
                and older.number < judged.first
          )
        order by judged.id
    ) as ids,
    extract(epoch from clock_timestamp() - statement_timestamp())::float8 * 1000 as ms
from young;

-- name: remove_lines
-- Remove log lines before their run, a bounded number at a time: a run may have a million of them.
with gone as (
    delete from evenbeat.run_log
    where (run_log.run_id, run_log.id) in (
        select line.run_id, line.id
        from unnest(:run_ids::bigint[]) as doomed (run_id)
        join evenbeat.run_log as line on line.run_id = doomed.run_id
        limit :limit
    )
    returning run_log.id
)
select
    (select count(*) from gone) as count,
    extract(epoch from clock_timestamp() - statement_timestamp())::float8 * 1000 as ms;

-- name: remove_runs
with gone as (
    delete from evenbeat.run
    where run.id = any (:ids::bigint[])
    returning run.id
)
select
    (select count(*) from gone) as count,
    extract(epoch from clock_timestamp() - statement_timestamp())::float8 * 1000 as ms;

-- name: old_jobs
-- Which jobs of this piece may be removed: one-off jobs that ended, and jobs that were deleted, longer
-- than :keep_for ago. They are locked in id order, so that no transaction retries a job while it is
-- removed; a job that another transaction holds stays.
-- A job stays until all of its runs have been counted: counting needs its kind.
with piece as materialized (
    select pulse.id
    from evenbeat.pulse
    where pulse.id > :after
    order by pulse.id
    limit :limit
),
counted as materialized (
    select chore.cursor from evenbeat.chore where chore.name = 'count'
),
late as materialized (
    select distinct run.job_id
    from evenbeat.late_run
    join evenbeat.run on run.id = late_run.id
),
doomed as materialized (
    select pulse.id
    from piece
    join evenbeat.pulse on pulse.id = piece.id
    join evenbeat.job on job.id = piece.id
    where pulse.token is null
      and (
          job.deleted_at < :now - :keep_for::interval
          or not :may_still_run
          and pulse.state_at < :now - :keep_for::interval
          and not :is_recurring
      )
      and coalesce(
          (
              select run.id
              from evenbeat.run
              where run.job_id = piece.id
              order by run.number desc
              limit 1
          ) <= (select counted.cursor from counted),
          true
      )
      and piece.id not in (select late.job_id from late)
    order by pulse.id
    for update of pulse skip locked
)
select
    (select max(piece.id) from piece) as last_id,
    (select count(*) from piece) as seen,
    array(select doomed.id from doomed order by doomed.id) as ids,
    extract(epoch from clock_timestamp() - statement_timestamp())::float8 * 1000 as ms;

-- name: fold_days
-- Add the days of removed jobs to job 0, so that the counts of their kind and group stay right.
with folded as (
    delete from evenbeat.run_day
    where run_day.job_id > 0
      and run_day.job_id = any (:job_ids::bigint[])
    returning
        run_day.day, run_day.kind, run_day.group_key, run_day.completed, run_day.failed,
        run_day.lost, run_day.cancelled, run_day.skipped, run_day.retried, run_day.duration_ms,
        run_day.longest_ms, run_day.items_crawled, run_day.items_indexed
)
insert into evenbeat.run_day as d (
    day, kind, group_key, job_id, completed, failed, lost, cancelled, skipped, retried,
    duration_ms, longest_ms, items_crawled, items_indexed
)
select
    folded.day, folded.kind, folded.group_key, 0, sum(folded.completed), sum(folded.failed),
    sum(folded.lost), sum(folded.cancelled), sum(folded.skipped), sum(folded.retried),
    sum(folded.duration_ms), max(folded.longest_ms), sum(folded.items_crawled),
    sum(folded.items_indexed)
from folded
group by folded.day, folded.kind, folded.group_key
order by folded.day, folded.kind, folded.group_key
on conflict (day, kind, group_key, job_id) do update
set completed = d.completed + excluded.completed,
    failed = d.failed + excluded.failed,
    lost = d.lost + excluded.lost,
    cancelled = d.cancelled + excluded.cancelled,
    skipped = d.skipped + excluded.skipped,
    retried = d.retried + excluded.retried,
    duration_ms = d.duration_ms + excluded.duration_ms,
    longest_ms = greatest(d.longest_ms, excluded.longest_ms),
    items_crawled = d.items_crawled + excluded.items_crawled,
    items_indexed = d.items_indexed + excluded.items_indexed;

-- name: remove_jobs
-- Dead letters stay: they have the job's name and payload. Runs and audit entries have limits of their
-- own.
with removed_pulses as (
    delete from evenbeat.pulse
    where pulse.id = any (:job_ids::bigint[])
),
removed_versions as (
    delete from evenbeat.job_version
    where job_version.job_id = any (:job_ids::bigint[])
)
delete from evenbeat.job
where job.id = any (:job_ids::bigint[]);

-- name: remove_days
delete from evenbeat.run_day
where (run_day.day, run_day.kind, run_day.group_key, run_day.job_id) in (
    select old.day, old.kind, old.group_key, old.job_id
    from evenbeat.run_day as old
    where old.day < ((:now - :keep_for::interval) at time zone 'UTC')::date
    order by old.day, old.kind, old.group_key, old.job_id
    limit :limit
);

-- name: remove_letters
-- Remove letters that were acknowledged longer than :keep_for ago; an unacknowledged one is never
-- removed. The goal of the chore is the newest removed id: `evenbeat verify` does not miss the letters
-- of failed runs up to it.
with gone as (
    delete from evenbeat.dead_letter
    where dead_letter.id in (
        select seen.id
        from evenbeat.dead_letter as seen
        where seen.acknowledged_at < :now - :keep_for::interval
        order by seen.acknowledged_at
        limit :limit
        for update skip locked
    )
    returning dead_letter.id
),
remembered as (
    update evenbeat.chore
    set goal = greatest(chore.goal, (select max(gone.id) from gone))
    where chore.name = :chore
)
select count(*) as count
from gone;
