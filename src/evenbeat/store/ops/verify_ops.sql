-- Rules of `evenbeat verify` about nodes, leases, maintenance, counting and rights; verify.sql says
-- how rules are written.

-- name: every_lease_has_its_run_and_node
select format('job %s: is leased to node %s, and the run or the node is missing', pulse.id,
    pulse.node_id) as breach
from evenbeat.pulse
left join evenbeat.node on node.id = pulse.node_id
where pulse.token is not null
  and (
      node.id is null
      or pulse.run_id is null
      or pulse.started_at is null
      or pulse.cause is null
      or pulse.cause <> 'm' and (pulse.beat_at is null or pulse.attempt < 1)
  );

-- name: no_lease_outlives_its_node
-- It may for :grace, until another node reaps it, and as long as no node lives.
select format('job %s: is leased to node %s, which was last heard of at %s', pulse.id, node.id,
    least(node.dead_at, node.alive_until)) as breach
from evenbeat.pulse
join evenbeat.node on node.id = pulse.node_id
where pulse.token is not null
  and coalesce(node.dead_at, node.alive_until) < statement_timestamp() - :grace::interval
  and exists (
      select from evenbeat.node as living
      where living.dead_at is null
        and living.alive_until > statement_timestamp()
        and living.joined_at < statement_timestamp() - :grace::interval
  );

-- name: a_swept_node_is_dead_and_holds_nothing
-- No node reaps a swept node again.
select format('node %s: was swept, and %s', node.id, case
    when node.dead_at is null then 'was never declared dead'
    else format('holds job %s', pulse.id)
end) as breach
from evenbeat.node
left join evenbeat.pulse on pulse.node_id = node.id and pulse.token is not null
where node.swept_at is not null
  and (node.dead_at is null or pulse.id is not null);

-- name: nothing_starts_on_a_dead_node
-- Judged only where jobs and leases go by one clock.
select format('job %s: run %s started on node %s after its death', run_all.job_id,
    run_all.number, node.id) as breach
from evenbeat.run_all
join evenbeat.node on node.id = run_all.node_id
where run_all.started_at > node.dead_at
  and :has_one_clock::boolean;

-- name: nothing_starts_during_maintenance
-- A claim may be under way when maintenance begins: hence :grace.
select format('job %s: run %s started, and maintenance is on since %s', run_all.job_id,
    run_all.number, maintenance.since) as breach
from evenbeat.maintenance
join evenbeat.run_all on run_all.started_at > maintenance.since + :grace::interval
where run_all.skipped_until is null;

-- name: every_run_is_counted_once
-- If all of a job's history is kept, its days say what the counted runs say. If some of it is gone,
-- its days and the runs not yet counted add up to the job's own counters. Judged are recurring jobs
-- that were never edited and are no older than the days that are kept: one-off jobs share a row, and
-- older or edited jobs may have lost some days.
select format('job %s: its days count %s completed and %s failed runs, and %s and %s is right',
    judged.id, judged.completed, judged.failed, judged.expected_completed, judged.expected_failed)
    as breach
from (
    select
        pulse.id,
        coalesce(days.completed, 0) as completed,
        coalesce(days.failed, 0) as failed,
        case
            when kept.oldest = 1 then kept.counted_completed
            else pulse.completed_count - coalesce(kept.open_completed, 0)
        end as expected_completed,
        case
            when kept.oldest = 1 then kept.counted_failed
            else pulse.failed_count - coalesce(kept.open_failed, 0)
        end as expected_failed
    from evenbeat.pulse
    join evenbeat.job on job.id = pulse.id
    left join (
        select
            seen.job_id,
            min(seen.number) as oldest,
            count(*) filter (where seen.is_counted and seen.state = 'c') as counted_completed,
            count(*) filter (where seen.is_counted and seen.state = 'f') as counted_failed,
            count(*) filter (where not seen.is_counted and seen.state = 'c') as open_completed,
            count(*) filter (where not seen.is_counted and seen.state = 'f') as open_failed
        from (
            select
                run.job_id, run.number, run.state,
                run.id <= coalesce(
                    (select chore.cursor from evenbeat.chore where chore.name = 'count'), 0
                )
                and late_run.id is null as is_counted
            from evenbeat.run
            left join evenbeat.late_run on late_run.id = run.id
        ) as seen
        group by seen.job_id
    ) as kept on kept.job_id = pulse.id
    left join (
        select
            run_day.job_id,
            sum(run_day.completed) as completed,
            sum(run_day.failed) as failed
        from evenbeat.run_day
        where run_day.job_id > 0
        group by run_day.job_id
    ) as days on days.job_id = pulse.id
    where job.version = 1
      and not job.timetable -> 'schedule' ?| array['once', 'now', 'at']
      and (
          (job.created_at at time zone 'UTC')::date >= (
              select min(run_day.day) from evenbeat.run_day
          )
          or not exists (
              select from evenbeat.chore where chore.name = 'days' and chore.total_count > 0
          )
      )
) as judged
where (judged.completed, judged.failed)
    <> (judged.expected_completed, judged.expected_failed);

-- name: every_run_in_hand_will_be_counted
-- Once counting has passed the id of a run, only a row in late_run makes counting come back to it.
select format('job %s: run %s is under way, and counting has passed it', pulse.id,
    pulse.run_number) as breach
from evenbeat.pulse
join evenbeat.chore on chore.name = 'count'
where pulse.token is not null
  and pulse.run_id <= chore.cursor
  and not exists (select from evenbeat.late_run where late_run.id = pulse.run_id);

-- name: sql_functions_cannot_use_our_tables
-- The roles that SQL functions run as can neither read nor write our tables.
select format('%s may use %s', kept_out.role, pg_class.oid::regclass) as breach
from (
    select sql_login.role from evenbeat.sql_login
    union
    select 'evenbeat_sql'
) as kept_out
join pg_roles on pg_roles.rolname = kept_out.role
join pg_class on pg_class.relnamespace = 'evenbeat'::regnamespace
where pg_class.relkind in ('r', 'v')
  and has_table_privilege(
      pg_roles.oid, pg_class.oid, 'select, insert, update, delete, truncate, references, trigger'
  );
