-- Rules of `evenbeat verify` about the map of the load and rebalance plans; verify.sql says how rules
-- are written.

-- name: a_plan_has_all_its_jobs
select format('plan %s: has %s moves and %s skipped jobs, and says %s and %s', plan.id, moves.count,
    skips.count, plan.move_count, plan.skip_count) as breach
from evenbeat.rebalance_plan as plan
cross join lateral (
    select count(*) as count from evenbeat.rebalance_move where rebalance_move.plan_id = plan.id
) as moves
cross join lateral (
    select count(*) as count from evenbeat.rebalance_skip where rebalance_skip.plan_id = plan.id
) as skips
where (moves.count, skips.count) <> (plan.move_count, plan.skip_count);

-- name: what_an_undo_took_back_is_undone
-- The other way round is not checked: the undo may have been removed before the plan.
select format('plan %s: took %s back, which says it is %s', undo.id, plan.id,
    case when plan.applied_at is null then 'not applied' else 'in force' end) as breach
from evenbeat.rebalance_plan as undo
join evenbeat.rebalance_plan as plan on plan.id = undo.undoes
where undo.applied_at is not null
  and plan.undone_at is null;

-- name: every_job_that_beats_is_in_the_map
-- Or waits to be placed. A job that ends by itself leaves the map a while later; a job that a person
-- ends leaves it at once.
select format('job %s: beats, and is neither in the map nor waits to be placed', job.id) as breach
from evenbeat.job
join evenbeat.pulse on pulse.id = job.id
where job.deleted_at is null
  and pulse.wanted is null
  and pulse.state in ('p', 's', 'f')
  and pulse.next_beat_at is not null
  and not job.timetable -> 'schedule' ?| array['once', 'now', 'at']
  and not exists (select from evenbeat.placement where placement.job_id = job.id)
  and not exists (select from evenbeat.unplaced where unplaced.job_id = job.id)
union all
select format('job %s: is %s, and still in the map', job.id, case
    when job.deleted_at is not null then 'deleted'
    when pulse.state = 'x' then 'cancelled'
    else 'disabled'
end)
from evenbeat.placement
join evenbeat.job on job.id = placement.job_id
join evenbeat.pulse on pulse.id = placement.job_id
where (job.deleted_at is not null or pulse.state in ('d', 'x'))
  and not exists (select from evenbeat.unplaced where unplaced.job_id = job.id);

-- name: the_map_can_be_locked
-- The next process that places a job puts the row back.
select 'the map: the row that its writers lock is not in evenbeat.placing' as breach
where not exists (select from evenbeat.placing);

-- name: the_map_agrees_with_its_changes
-- By the newest change of every job that has one. Otherwise processes that read the changes and
-- processes that read the map would see different loads.
select format('job %s: the newest change of the map says %s, and the map %s', newest.job_id,
    case when newest.jobs > 0 then 'that it came' else 'that it went' end,
    case
        when placement.job_id is null then 'does not have it'
        when newest.jobs < 0 then 'has it'
        else 'has it elsewhere'
    end) as breach
from (
    select distinct on (load_delta.job_id)
        load_delta.job_id, load_delta.jobs, load_delta.interval_s, load_delta.phase_s,
        load_delta.cost_s, load_delta.timetable
    from evenbeat.load_delta
    order by load_delta.job_id, load_delta.seq desc
) as newest
left join evenbeat.placement on placement.job_id = newest.job_id
where case
    when newest.jobs < 0 then placement.job_id is not null
    else (placement.interval_s, placement.phase_s, placement.cost_s, placement.timetable)
        is distinct from (newest.interval_s, newest.phase_s, newest.cost_s, newest.timetable)
end;
