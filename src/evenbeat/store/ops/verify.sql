-- What must hold of the tables at any moment: each statement is named for its rule, and lists what
-- breaks it. No rows, no breach. All of them read one snapshot.
--
-- Retention takes the oldest runs of a job first, so that nothing is said of what came before the
-- oldest run that is kept. :slack is for instants of two statements: statement_timestamp() is
-- taken a moment before the snapshot is, so that a claim may see a run end that ended after it.

-- fragment: of_one_rule
(
    select :name as rule, broken.breach
    from (
        :found
    ) as broken
    limit :most
)

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

-- name: every_job_is_in_its_group
-- Not judged while it runs: it may be on its way from one group to another.
select format('job %s: is of group %s and waits in %s', job.id, coalesce(job.group_key, 'none'),
    coalesce(job_group.key, 'none')) as breach
from evenbeat.pulse
join evenbeat.job on job.id = pulse.id
left join evenbeat.job_group on job_group.id = pulse.group_id
where job.group_key is distinct from job_group.key
  and pulse.token is null;

-- name: runs_are_numbered_without_a_gap
select format('job %s: %s runs are missing between the oldest and the newest', kept.job_id,
    kept.missing) as breach
from (
    select
        run_all.job_id,
        max(run_all.number) - min(run_all.number) + 1 - count(*) as missing
    from evenbeat.run_all
    group by run_all.job_id
) as kept
where kept.missing <> 0;

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
-- The other way round it is not asked: the undo may have been removed before the plan.
select format('plan %s: took %s back, which says it is %s', undo.id, plan.id,
    case when plan.applied_at is null then 'not applied' else 'in force' end) as breach
from evenbeat.rebalance_plan as undo
join evenbeat.rebalance_plan as plan on plan.id = undo.undoes
where undo.applied_at is not null
  and plan.undone_at is null;

-- name: the_counter_is_at_the_newest_run
select format('job %s: counts to %s, and its newest run is %s', pulse.id, pulse.run_number,
    newest.number) as breach
from evenbeat.pulse
join (
    select run_all.job_id, max(run_all.number) as number
    from evenbeat.run_all
    group by run_all.job_id
) as newest on newest.job_id = pulse.id
where newest.number <> pulse.run_number;

-- name: counts_agree_with_the_history
-- Exactly where all of the history is kept, and at least where the oldest of it is gone.
select format('job %s: counts %s completed and %s failed runs, and has %s and %s', pulse.id,
    pulse.completed_count, pulse.failed_count, kept.completed, kept.failed) as breach
from evenbeat.pulse
join (
    select
        run.job_id,
        min(run.number) as oldest,
        count(*) filter (where run.state = 'c') as completed,
        count(*) filter (where run.state = 'f') as failed
    from evenbeat.run
    group by run.job_id
) as kept on kept.job_id = pulse.id
where kept.completed > pulse.completed_count
   or kept.failed > pulse.failed_count
   or (
       kept.oldest = 1
       and (kept.completed, kept.failed) <> (pulse.completed_count, pulse.failed_count)
   );

-- name: a_settled_beat_is_not_run_again
-- Settled: completed, given up, too late, or buried. A run handed back or snoozed settles nothing.
select format('job %s: run %s is of beat %s, which run %s has settled', following.job_id,
    following.number, following.beat_at, following.previous) as breach
from (
    select
        run_all.job_id, run_all.number, run_all.beat_at,
        lag(run_all.number) over beat as previous,
        lag(
            run_all.state in ('c', 'k')
            or run_all.state = 'x'
            and run_all.error_class is distinct from 'handed_back'
            and run_all.error_class is distinct from 'snoozed'
            or dead_letter.id is not null
        ) over beat as is_settled
    from evenbeat.run_all
    left join evenbeat.dead_letter on dead_letter.id = run_all.id
    where run_all.beat_at is not null
      and run_all.skipped_until is null
    window beat as (partition by run_all.job_id, run_all.beat_at order by run_all.number)
) as following
where following.is_settled;

-- name: attempts_are_numbered_without_a_gap
-- The first attempt at a beat is 1, and each failed one is followed by the next. A run that was
-- handed back or snoozed was no attempt: its number comes again.
select format('job %s: run %s is attempt %s at beat %s', tried.job_id, tried.number,
    tried.attempt, tried.beat_at) as breach
from (
    select
        run_all.job_id, run_all.number, run_all.beat_at, run_all.attempt,
        case
            when lag(run_all.state) over beat = 'f' then lag(run_all.attempt) over beat + 1
            when lag(run_all.state) over beat = 'x' then greatest(lag(run_all.attempt) over beat, 1)
            when lag(run_all.state) over beat is null
                and (run_all.number = 1 or lag(run_all.id) over job is not null) then 1
            else run_all.attempt
        end as expected
    from evenbeat.run_all
    where run_all.skipped_until is null
    window
        beat as (partition by run_all.job_id, run_all.beat_at order by run_all.number),
        job as (partition by run_all.job_id order by run_all.number)
) as tried
where tried.beat_at is not null
  and tried.attempt <> tried.expected;

-- name: attempts_do_not_exceed_their_limit
-- By the policy, or by whichever of its rules allows most. Of jobs that were never edited.
select format('job %s: run %s is attempt %s, and %s are allowed', tried.job_id, tried.number,
    tried.attempt, tried.allowed) as breach
from (
    select
        run.job_id, run.number, run.attempt,
        greatest(
            coalesce(
                jsonb_path_query_first(
                    job.policy, '$.max_attempts ? (@.type() == "number")'
                )::integer,
                :default_attempts::integer
            ),
            (
                select max(by_rule.most::integer)
                from jsonb_path_query(
                    job.policy, '$.retry_rules[*].max_attempts ? (@.type() == "number")'
                ) as by_rule (most)
            )
        ) as allowed
    from evenbeat.run
    join evenbeat.job on job.id = run.job_id
    where run.state in ('c', 'f')
      and run.attempt > 1
      and job.version = 1
) as tried
where tried.attempt > tried.allowed;

-- name: runs_of_a_job_never_overlap
select format('job %s: run %s started before run %s ended', following.job_id, following.number,
    following.previous) as breach
from (
    select
        run_all.job_id, run_all.number, run_all.started_at,
        lag(run_all.number) over history as previous,
        lag(run_all.finished_at) over history as previous_finished_at
    from evenbeat.run_all
    where run_all.state <> 'k'
    window history as (partition by run_all.job_id order by run_all.number)
) as following
where following.started_at < following.previous_finished_at - :slack::interval;

-- name: no_run_starts_before_its_beat
select format('job %s: run %s started %s before its beat', run_all.job_id, run_all.number,
    run_all.beat_at - run_all.started_at) as breach
from evenbeat.run_all
where run_all.started_at < run_all.beat_at
  and run_all.skipped_until is null;

-- name: no_run_ends_before_it_starts
select format('job %s: run %s ended before it started, or the clock was set back', run.job_id,
    run.number) as breach
from evenbeat.run
where run.finished_at < run.started_at;

-- name: nothing_is_missed_before_its_time
-- Beats are passed over when they have passed, by the clock of the database.
select format('job %s: run %s gives up beats until %s, and was written at %s', run.job_id,
    run.number, run.skipped_until, run.finished_at) as breach
from evenbeat.run
where run.skipped_until > run.finished_at + :slack::interval;

-- name: what_is_missed_says_why
select format('job %s: run %s was skipped without a reason', run.job_id, run.number) as breach
from evenbeat.run
where run.state = 'k'
  and (run.reason is null or run.skipped_count is null or run.skipped_count < 1);

-- name: nothing_starts_in_a_job_at_rest
-- Paused, disabled, cancelled or completed: it starts nothing but what is asked for by hand.
-- The newest run of each job by its index: a join took half a minute for 20,000 runs.
select format('job %s: run %s started, and the job rests since %s', pulse.id, newest.number,
    pulse.state_at) as breach
from evenbeat.pulse
cross join lateral (
    select run.number, run.started_at
    from evenbeat.run
    where run.job_id = pulse.id
      and run.cause <> 'm'
      and run.skipped_until is null
    order by run.number desc
    limit 1
) as newest
where pulse.state in ('z', 'd', 'x', 'c')
  and pulse.wanted is null
  and newest.started_at > pulse.state_at + :slack::interval
union all
select format('job %s: runs, and rests since %s', pulse.id, pulse.state_at)
from evenbeat.pulse
where pulse.state in ('z', 'd', 'x', 'c')
  and pulse.token is not null
  and pulse.wanted is null
  and pulse.cause <> 'm'
  and pulse.started_at > pulse.state_at + :slack::interval;

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
-- Whether it is enabled is not judged where it has ended by itself.
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

-- name: no_job_is_hidden_from_claims_for_good
-- Parked without a group, or tucked away at rest: no claim would ever see it again.
select format('job %s: %s', pulse.id, case
    when pulse.is_tucked then 'is tucked away, and does not run'
    else 'is parked, and its group is not there'
end) as breach
from evenbeat.pulse
left join evenbeat.job_group on job_group.id = pulse.group_id
where pulse.is_tucked and pulse.token is null
   or pulse.is_parked and job_group.id is null;

-- name: no_parked_job_runs
select format('job %s: runs, and is parked', pulse.id) as breach
from evenbeat.pulse
where pulse.is_parked
  and pulse.token is not null;

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
-- For a moment it does, while somebody else looks after the dead; and as long as nobody lives.
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
-- Nobody looks after it again.
select format('node %s: was swept, and %s', node.id, case
    when node.dead_at is null then 'was never declared dead'
    else format('holds job %s', pulse.id)
end) as breach
from evenbeat.node
left join evenbeat.pulse on pulse.node_id = node.id and pulse.token is not null
where node.swept_at is not null
  and (node.dead_at is null or pulse.id is not null);

-- name: nothing_starts_on_a_dead_node
-- Only where jobs and leases go by one clock.
select format('job %s: run %s started on node %s after its death', run_all.job_id,
    run_all.number, node.id) as breach
from evenbeat.run_all
join evenbeat.node on node.id = run_all.node_id
where run_all.started_at > node.dead_at
  and :has_one_clock::boolean;

-- name: every_permit_has_its_lease
select format('group %s: job %s holds a permit, and does not run there', permit.group_id,
    permit.job_id) as breach
from evenbeat.permit
left join evenbeat.pulse on pulse.id = permit.job_id
where pulse.token is null
   or pulse.permit_group_id is distinct from permit.group_id;

-- name: every_lease_in_a_group_has_its_permit
-- A job that was edited since its run began may have been in no group then.
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
-- A sweep over the runs, those in hand included: whoever started found room, by the group's limit
-- and by its own. Runs from before the limits were last changed, or the job, are not judged.
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
          -- Of shorter ones nobody can tell whether they met.
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

-- name: a_beat_out_of_attempts_is_a_dead_letter
-- A failed run after which came neither a retry, nor another run of the beat, nor a letter. Not
-- judged: jobs that people cancelled, planned anew or ran by hand meanwhile, and runs up to the
-- newest whose letter need not be kept any longer.
select format('job %s: run %s was the last of its beat, and is no dead letter', run.job_id,
    run.number) as breach
from evenbeat.run
join evenbeat.pulse on pulse.id = run.job_id
where run.state = 'f'
  and run.beat_at is not null
  and pulse.plan_version = coalesce(
      (select placement.plan_version from evenbeat.placement where placement.job_id = pulse.id), 1
  )
  and run.number > coalesce(
      (select placement.run_number from evenbeat.placement where placement.job_id = pulse.id), 0
  )
  and pulse.state <> 'x'
  and pulse.wanted is null
  and run.id > coalesce(
      (select chore.goal from evenbeat.chore where chore.name = 'letters'), 0
  )
  and not exists (select from evenbeat.dead_letter where dead_letter.id = run.id)
  and not exists (
      select from evenbeat.run_all as later
      where later.job_id = run.job_id
        and later.number > run.number
        and (later.beat_at = run.beat_at and later.skipped_until is null or later.cause = 'm')
  )
  and not (
      pulse.beat_at = run.beat_at
      and (pulse.retry_at is not null or pulse.token is not null and pulse.cause = 'm')
  );

-- name: a_deleted_job_is_stopped
-- At once where it rested, and by its node where it ran. Nothing of it starts again.
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
-- By its version: else nodes would run the job by one that was replaced.
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

-- name: nothing_starts_during_maintenance
-- A claim may be under way when it is switched on.
select format('job %s: run %s started, and maintenance is on since %s', run_all.job_id,
    run_all.number, maintenance.since) as breach
from evenbeat.maintenance
join evenbeat.run_all on run_all.started_at > maintenance.since + :grace::interval
where run_all.skipped_until is null;

-- name: every_dead_letter_has_its_failed_run
-- As long as older runs of its job are kept: a letter outlives its run, and its job.
select format('dead letter %s of job %s: its run is %s', dead_letter.id, dead_letter.job_id, case
    when run.id is null then 'not in the history'
    else 'not a failed one'
end) as breach
from evenbeat.dead_letter
left join evenbeat.run on run.id = dead_letter.id
where run.state <> 'f'
   or run.id is null
  and exists (
      select from evenbeat.run as older
      where older.job_id = dead_letter.job_id
        and older.id < dead_letter.id
  );

-- name: every_dead_letter_names_its_job
-- As long as there is one; and a letter that was requeued is run by a job of its kind.
select format('dead letter %s: is of job %s, and says %s', dead_letter.id, job.uid,
    dead_letter.job_uid) as breach
from evenbeat.dead_letter
join evenbeat.job on job.id = dead_letter.job_id
where dead_letter.job_uid <> job.uid
union all
select format('dead letter %s: is of kind %s, and requeued as job %s of kind %s', dead_letter.id,
    dead_letter.kind, job.id, job.kind)
from evenbeat.dead_letter
join evenbeat.job on job.uid = dead_letter.requeued_as
where dead_letter.kind <> job.kind
  and job.version = 1;

-- name: every_run_is_counted_once
-- Where all of a job's history is kept, its days say what the counted runs say; where some of it
-- is gone, its days and the runs not yet counted add up to the job's own counters. Of recurring
-- jobs that were never edited, and are no older than the days that are kept: others share a row,
-- or have lost some.
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
-- Once counting has passed its id, a run is found again only if it is remembered as late.
select format('job %s: run %s is under way, and counting has passed it', pulse.id,
    pulse.run_number) as breach
from evenbeat.pulse
join evenbeat.chore on chore.name = 'count'
where pulse.token is not null
  and pulse.run_id <= chore.cursor
  and not exists (select from evenbeat.late_run where late_run.id = pulse.run_id);

-- name: every_log_line_has_its_run
select format('log line %s: there is no run %s', run_log.id, run_log.run_id) as breach
from evenbeat.run_log
where not exists (select from evenbeat.run_all where run_all.id = run_log.run_id);

-- name: sql_functions_cannot_use_our_tables
-- Whoever they run as must not be able to look at our tables, let alone to write to them.
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

-- name: scope
-- How much there is to look at.
select
    (select count(*) from evenbeat.job) as jobs,
    (select count(*) from evenbeat.run_all) as runs;

-- name: every_job_that_beats_is_in_the_map
-- Or waits to be placed. What ends by itself leaves the map a while later; what people end, at once.
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
-- The next who places in earnest puts the row back.
select 'the map: the row that its writers lock is not in evenbeat.placing' as breach
where not exists (select from evenbeat.placing);

-- name: the_map_agrees_with_its_changes
-- By the newest change of every job that has one: else processes that read the changes and those
-- that read the map would see different loads.
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

-- name: recurring_jobs
-- The recurring jobs that were planned once and since then placed at most: what they owe since that
-- follows from their timetable alone.
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
