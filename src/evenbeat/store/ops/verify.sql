-- What `evenbeat verify` reads beside its rules. The rules are in verify_*.sql, by area.
--
-- Each rule is a statement that is named for what must hold at any moment, and lists what breaks it:
-- no rows, no breach. All rules read one snapshot. Retention removes the oldest runs of a job first, so
-- that no rule speaks of what came before the oldest run that is kept.

-- fragment: of_one_rule
(
    select :name as rule, broken.breach
    from (
        :found
    ) as broken
    limit :most
)

-- name: scope
-- How much is checked.
select
    (select count(*) from evenbeat.job) as jobs,
    (select count(*) from evenbeat.run_all) as runs;

-- name: recurring_jobs
-- The recurring jobs that were planned once and since then only placed: which beats they owe since
-- then follows from their timetable alone. A pause does not change that.
select
    job.id, job.timetable, coalesce(placement.placed_at, job.created_at) as planned_at,
    coalesce(placement.run_number, 0) as run_number,
    pulse.run_number = coalesce(placement.run_number, 0) as is_unrun, pulse.next_beat_at,
    pulse.retry_at, pulse.token is not null as is_running
from evenbeat.job
join evenbeat.pulse on pulse.id = job.id
left join evenbeat.placement on placement.job_id = job.id
where job.version = 1
  and pulse.plan_version = coalesce(placement.plan_version, 1)
  and job.id > :after
  and not job.timetable -> 'schedule' ?| array['once', 'now', 'at']
order by job.id
limit :limit;

-- name: beat_records
-- The runs and rows of missed beats of these jobs since they were placed, the :newest of each, in
-- their order.
select
    run_all.job_id, run_all.number, run_all.cause, run_all.beat_at, run_all.skipped_until,
    run_all.skipped_count, run_all.state
from evenbeat.run_all
join evenbeat.pulse on pulse.id = run_all.job_id
left join evenbeat.placement on placement.job_id = run_all.job_id
where run_all.job_id = any (:job_ids::bigint[])
  and run_all.number > pulse.run_number - :newest::integer
  and run_all.number > coalesce(placement.run_number, 0)
order by run_all.job_id, run_all.number;

-- name: mapped_footprints
-- What the map holds of jobs that do not wait to be placed, and by which timetable they beat.
select
    placement.job_id, placement.interval_s, placement.phase_s, placement.cost_s,
    placement.timetable::text as counted, job.timetable::text as timetable
from evenbeat.placement
join evenbeat.job on job.id = placement.job_id
where placement.job_id > :after
  and not exists (select from evenbeat.unplaced where unplaced.job_id = placement.job_id)
order by placement.job_id
limit :limit;
