-- Rules of `evenbeat verify` about runs, beats and dead letters; verify.sql says how rules are
-- written. :slack is for instants of two statements: statement_timestamp() is taken a moment before
-- the snapshot is, so that a claim may see the end of a run that ended after it.

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
-- Exactly, if all of the history is kept. If the oldest runs are gone, the counts are not smaller.
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
-- A beat is settled when a run completes, gives up, comes too late, or leaves a dead letter. A run
-- that was handed back or snoozed settles nothing.
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
-- handed back or snoozed does not count as an attempt: the next one has its number.
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
-- By the policy, or by the one of its rules that allows most. Judged are jobs that were never edited.
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
-- Only beats that have passed, by the clock of the database, are given up.
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
-- A job that is paused, disabled, cancelled or completed starts only what a person asks for by hand.
-- The newest run of each job is read by its index: a join took half a minute for 20,000 runs.
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

-- name: every_dead_letter_has_its_failed_run
-- Judged while older runs of its job are kept: a letter outlives its run and its job.
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
-- Judged while there is the job. A letter that was requeued is run by a job of its kind.
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

-- name: every_log_line_has_its_run
select format('log line %s: there is no run %s', run_log.id, run_log.run_id) as breach
from evenbeat.run_log
where not exists (select from evenbeat.run_all where run_all.id = run_log.run_id);
