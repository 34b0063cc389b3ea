-- Rules of `evenbeat verify` about groups, permits and parked jobs; verify.sql says how rules are
-- written.

-- name: every_job_is_in_its_group
-- Not judged while the job runs: an edit may be moving it from one group to another.
select format('job %s: is of group %s and waits in %s', job.id, coalesce(job.group_key, 'none'),
    coalesce(job_group.key, 'none')) as breach
from evenbeat.pulse
join evenbeat.job on job.id = pulse.id
left join evenbeat.job_group on job_group.id = pulse.group_id
where job.group_key is distinct from job_group.key
  and pulse.token is null;

-- name: every_permit_has_its_lease
select format('group %s: job %s holds a permit, and does not run there', permit.group_id,
    permit.job_id) as breach
from evenbeat.permit
left join evenbeat.pulse on pulse.id = permit.job_id
where pulse.token is null
   or pulse.permit_group_id is distinct from permit.group_id;

-- name: every_lease_in_a_group_has_its_permit
-- A job that was edited since its run began may have been in no group when it began.
select format('job %s: runs in group %s without a permit', pulse.id,
    coalesce(pulse.permit_group_id, pulse.group_id)) as breach
from evenbeat.pulse
join evenbeat.job on job.id = pulse.id
where pulse.token is not null
  and (
      pulse.permit_group_id is not null
      or pulse.group_id is not null and job.updated_at <= pulse.started_at
  )
  and not exists (
      select from evenbeat.permit
      where permit.group_id = coalesce(pulse.permit_group_id, pulse.group_id)
        and permit.job_id = pulse.id
  );

-- name: no_group_ever_exceeds_its_limit
-- A sweep over the starts and ends of runs, those in hand included: a job that started found room, by
-- the group's limit and by its own. Runs that began before the limits or the job were last changed
-- are not judged.
select format('group %s: job %s started at %s as number %s, and %s may run', swept.key,
    swept.job_id, swept.at, swept.running, swept.allowed) as breach
from (
    select
        edges.key, edges.job_id, edges.at, edges.step, edges.allowed,
        sum(edges.step) over (
            partition by edges.key order by edges.at, edges.step, edges.job_id
        ) as running
    from (
        select
            job_group.key, run_all.job_id, edge.at, edge.step,
            least(job_group.max_running, pulse.group_limit) as allowed
        from evenbeat.run_all
        join evenbeat.pulse on pulse.id = run_all.job_id
        join evenbeat.job on job.id = run_all.job_id
        join evenbeat.job_group on job_group.id = pulse.group_id
        cross join lateral (
            values
                (run_all.started_at, 1),
                (run_all.finished_at - :slack::interval, -1)
        ) as edge (at, step)
        where run_all.skipped_until is null
          and run_all.started_at >= job_group.limits_at
          and run_all.started_at >= job.updated_at
          and edge.at is not null
          -- Whether runs shorter than the slack met cannot be told.
          and (
              run_all.finished_at is null
              or run_all.finished_at - :slack::interval > run_all.started_at
          )
    ) as edges
) as swept
where swept.step = 1
  and swept.running > swept.allowed;

-- name: nothing_starts_in_a_paused_group
select format('job %s: run %s started in group %s, which is paused since %s', run_all.job_id,
    run_all.number, job_group.key, job_group.paused_at) as breach
from evenbeat.job_group
join evenbeat.pulse on pulse.group_id = job_group.id
join evenbeat.job on job.id = pulse.id
join evenbeat.run_all on run_all.job_id = pulse.id
where run_all.started_at > job_group.paused_at + :grace::interval
  and run_all.started_at >= job.updated_at
  and run_all.skipped_until is null;

-- name: no_parked_job_runs
select format('job %s: runs, and is parked', pulse.id) as breach
from evenbeat.pulse
where pulse.is_parked
  and pulse.token is not null;

-- name: no_job_is_hidden_from_claims_for_good
-- A job that is parked without a group, or tucked away at rest: no claim would ever find it again.
select format('job %s: %s', pulse.id, case
    when pulse.is_tucked then 'is tucked away, and does not run'
    else 'is parked, and its group is not there'
end) as breach
from evenbeat.pulse
left join evenbeat.job_group on job_group.id = pulse.group_id
where pulse.is_tucked and pulse.token is null
   or pulse.is_parked and job_group.id is null;
