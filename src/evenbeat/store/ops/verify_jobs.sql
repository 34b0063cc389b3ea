-- Rules of `evenbeat verify` about jobs and their pulses; verify.sql says how rules are written.

-- name: every_job_has_a_pulse
select format('job %s: has no pulse', job.id) as breach
from evenbeat.job
where not exists (select from evenbeat.pulse where pulse.id = job.id)
union all
select format('job %s: has a pulse and is no job', pulse.id)
from evenbeat.pulse
where not exists (select from evenbeat.job where job.id = pulse.id);

-- name: every_job_has_its_lane
select format('job %s: is of kind %s and waits in the lane of %s', job.id, job.kind, lane.kind)
    as breach
from evenbeat.pulse
join evenbeat.job on job.id = pulse.id
left join evenbeat.lane on lane.id = pulse.lane_id
where lane.id is null
   or (lane.kind, lane.runs_on) is distinct from (job.kind, job.runs_on);

-- name: a_cancelled_job_has_nothing_planned
select format('job %s: is cancelled, and something is planned', pulse.id) as breach
from evenbeat.pulse
where pulse.state = 'x'
  and pulse.token is null
  and coalesce(pulse.retry_at, pulse.next_beat_at, pulse.manual_at) is not null;

-- name: a_waiting_job_has_something_planned
select format('job %s: waits, and nothing is planned', pulse.id) as breach
from evenbeat.pulse
where pulse.state in ('p', 's')
  and pulse.token is null
  and pulse.next_beat_at is null
  and pulse.retry_at is null
  and pulse.manual_at is null
  and not exists (select from evenbeat.unplanned where unplanned.job_id = pulse.id);

-- name: an_unplanned_job_gets_its_plan
-- Within a second or two. It waits as long as no node lives, or the transaction that wrote it is
-- open, or a run of its beat is in hand whose end may tell the beats that were passed over.
select format('job %s: waits for its plan since %s', unplanned.job_id, unplanned.since) as breach
from evenbeat.unplanned
left join evenbeat.pulse on pulse.id = unplanned.job_id
where unplanned.since < :now - :grace::interval
  and (unplanned.passed_from is null or pulse.token is null or pulse.cause = 'm')
  and exists (
      select from evenbeat.node as living
      where living.dead_at is null
        and living.alive_until > statement_timestamp()
        and living.joined_at < statement_timestamp() - :grace::interval
  );

-- name: sql_shows_what_is_there
-- If a job has ended by itself, whether SQL shows it as enabled is not judged.
select format('job %s: %s', coalesce(shown.job_id, sql_job.job_id), case
    when sql_job.job_id is null then 'is not among the jobs that SQL shows'
    when shown.job_id is null then 'is shown by SQL, and is not there'
    else 'is not what SQL shows of it'
end) as breach
from evenbeat.sql_job
full join evenbeat.sql_shown as shown on shown.job_id = sql_job.job_id
left join evenbeat.pulse on pulse.id = shown.job_id
where (shown.name, shown.function, shown.schedule, shown.timezone)
        is distinct from
        (sql_job.name::text, sql_job.function, sql_job.schedule::text, sql_job.timezone::text)
   or shown.enabled <> sql_job.enabled and pulse.state <> 'c';

-- name: a_deleted_job_is_stopped
-- A job at rest stops at once, and a node stops one that runs. Nothing of it starts again.
select format('job %s: is deleted, and %s', job.id, case
    when pulse.token is not null then 'its run is not stopped'
    else 'something is planned'
end) as breach
from evenbeat.job
join evenbeat.pulse on pulse.id = job.id
where job.deleted_at is not null
  and (
      pulse.token is not null and pulse.wanted is distinct from 'x'
      or pulse.token is null
      and coalesce(pulse.retry_at, pulse.next_beat_at, pulse.manual_at) is not null
  )
union all
select format('job %s: run %s started after the job was deleted', job.id, run_all.number)
from evenbeat.job
join evenbeat.run_all on run_all.job_id = job.id
where run_all.started_at > job.deleted_at + :slack::interval
  and run_all.skipped_until is null;

-- name: a_pulse_knows_its_definition
-- By its version. Otherwise nodes would run the job by a definition that was replaced.
select format('job %s: is at version %s, and its pulse knows %s', job.id, job.version,
    pulse.def_version) as breach
from evenbeat.job
join evenbeat.pulse on pulse.id = job.id
where job.version <> pulse.def_version;

-- name: a_replaced_version_is_older
select format('job %s: version %s was replaced, and the job is at %s', job_version.job_id,
    job_version.version, coalesce(job.version::text, 'none')) as breach
from evenbeat.job_version
left join evenbeat.job on job.id = job_version.job_id
where job.id is null
   or job_version.version >= job.version;
