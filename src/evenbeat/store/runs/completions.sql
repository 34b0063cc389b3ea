-- fragment: settled
-- How runs ended, column by column.
:job_ids::bigint[], :tokens::bigint[], :duration_ms::bigint[], :plan_versions::integer[],
:next_beats::timestamptz[], :attempts::smallint[], :attempts_used::smallint[],
:moves_cursor::boolean[], :run_states::"char"[], :job_states::"char"[],
:retries::timestamptz[], :failure_streaks::integer[], :lost_streaks::smallint[],
:error_classes::text[], :errors::text[], :stack_traces::text[], :results::jsonb[],
:items_crawled::integer[], :items_indexed::integer[], :reasons::text[], :signatures::text[],
:missed_counts::integer[], :missed_from::timestamptz[], :missed_until::timestamptz[],
:missed_reasons::text[]

-- name: complete
-- Settle a batch of runs: the pulse, the history row, the row of missed beats, the dead letter
-- and the permit, in one statement. Returns the runs that were settled and the groups in which a
-- place came free. A run that is not among them was fenced: this node has lost its lease.
-- Every array but the first few may come empty: unnest pads with nulls, and null means the usual.
-- Matched by job and token alone. With "and it is running", which the token implies, PostgreSQL's
-- planner started from another index and compared every row with every other.
-- Arrays are sorted by job id: rows are locked in that order, as everywhere.
with ended as (
    update evenbeat.pulse as p
    set state = case
            when p.wanted = 'x' then 'x'
            -- A job that is over is not paused or disabled: there is nothing left to resume.
            when p.wanted is not null
                and (o.job_state in ('c', 'x') or p.wanted = 'z' and o.job_state = 'f')
                and case
                    when coalesce(o.moves_cursor, true) and p.plan_version = o.plan_version
                        then o.next_beat_at
                    else p.next_beat_at
                end is null then o.job_state
            when p.wanted is not null then p.wanted
            when p.state in ('z', 'd', 'x') then p.state
            -- The job was planned anew while it ran: the new plan says whether a beat is to come.
            when p.plan_version <> o.plan_version and o.retry_at is null
                and p.next_beat_at is not null and o.job_state in ('c', 'x') then p.state
            when p.plan_version <> o.plan_version and o.retry_at is null
                and p.next_beat_at is null and coalesce(o.job_state, 's') in ('s', 'p')
                and (p.cause <> 'm' or p.retry_at is null) then 'c'
            else coalesce(o.job_state, 's')
        end,
        wanted = null,
        is_tucked = false,
        state_at = :now,
        next_beat_at = case
            when p.wanted = 'x' then null
            when coalesce(o.moves_cursor, true) and p.plan_version = o.plan_version
                then o.next_beat_at
            else p.next_beat_at
        end,
        retry_at = case
            when p.wanted = 'x' then null
            when p.cause = 'm' then p.retry_at
            else o.retry_at
        end,
        manual_at = case
            when p.wanted = 'x' then null
            when p.cause = 'm' and p.manual_at <= p.started_at then o.retry_at
            else p.manual_at
        end,
        attempt = case
            when p.cause = 'm' then p.attempt
            else coalesce(o.attempts_used, p.attempt)
        end,
        manual_attempt = case
            when p.cause <> 'm' then p.manual_attempt
            when o.retry_at is null then 0
            else o.attempts_used
        end,
        token = null,
        run_number = p.run_number + (o.missed_count is not null)::integer,
        completed_count = p.completed_count + (coalesce(o.run_state, 'c') = 'c')::integer,
        failed_count = p.failed_count + (o.run_state is not null and o.run_state = 'f')::integer,
        beat_count = p.beat_count + (
            p.cause <> 'm' and o.retry_at is null and coalesce(o.run_state, 'c') <> 'k'
        )::integer,
        failure_streak = coalesce(o.failure_streak, 0),
        lost_streak = coalesce(o.lost_streak, 0::smallint)
    from unnest(
        :settled
    ) as o (
        job_id, token, duration_ms, plan_version, next_beat_at, attempt, attempts_used,
        moves_cursor, run_state, job_state, retry_at, failure_streak, lost_streak, error_class,
        error, stack_trace, result, items_crawled, items_indexed, reason, signature, missed_count,
        missed_from, missed_until, missed_reason
    )
    where p.id = o.job_id
      and p.token = o.token
    returning
        p.id, p.run_id, p.run_number, p.cause, p.beat_at, p.node_id, p.started_at,
        p.permit_group_id, coalesce(o.run_state, 'c') as run_state, coalesce(o.attempt, p.attempt) as attempt,
        o.duration_ms, o.error_class,
        o.error, o.stack_trace, o.result, o.items_crawled, o.items_indexed, o.reason, o.signature,
        o.missed_count, o.missed_from, o.missed_until, o.missed_reason
),
closed_run as (
    insert into evenbeat.run (
        id, job_id, number, state, cause, beat_at, attempt, node_id, started_at, finished_at,
        duration_ms, error_class, error, stack_trace, result, items_crawled, items_indexed,
        reason, skipped_count
    )
    select
        ended.run_id, ended.id, ended.run_number - (ended.missed_count is not null)::integer,
        ended.run_state, ended.cause, case when ended.cause <> 'm' then ended.beat_at end,
        ended.attempt, ended.node_id, ended.started_at, :now, ended.duration_ms,
        ended.error_class, ended.error, ended.stack_trace, ended.result, ended.items_crawled,
        ended.items_indexed, ended.reason, case when ended.run_state = 'k' then 1 end
    from ended
),
skipped_run as (
    insert into evenbeat.run (
        id, job_id, number, state, cause, beat_at, attempt, started_at, finished_at,
        skipped_count, skipped_until, reason
    )
    select
        nextval('evenbeat.run_id'), ended.id, ended.run_number, 'k', 's', ended.missed_from, 0,
        :now, :now, ended.missed_count, ended.missed_until, ended.missed_reason
    from ended
    where ended.missed_count is not null
),
freed_permit as (
    delete from evenbeat.permit
    using ended
    where ended.permit_group_id is not null
      and permit.group_id = ended.permit_group_id
      and permit.job_id = ended.id
),
-- The signature is given only for a beat that has no attempt left.
new_dead_letter as (
    insert into evenbeat.dead_letter (
        id, job_id, job_uid, job_name, kind, group_key, payload, terms, beat_at, attempts,
        error_class, error, signature, created_at
    )
    select
        ended.run_id, ended.id, job.uid, job.name, job.kind, job.group_key, job.payload,
        jsonb_build_object(
            'policy', job.policy, 'labels', job.labels, 'runs_on', job.runs_on,
            'priority', pulse.priority, 'group_limit', pulse.group_limit
        ),
        case when ended.cause <> 'm' then ended.beat_at end, ended.attempt, ended.error_class,
        ended.error, ended.signature, :now
    from ended
    join evenbeat.job on job.id = ended.id
    join evenbeat.pulse on pulse.id = ended.id
    where ended.signature is not null
)
select
    array_agg(ended.run_id) as run_ids,
    array_agg(distinct ended.permit_group_id)
        filter (where ended.permit_group_id is not null) as group_ids
from ended;

-- name: settle_run
-- The same for one run, in the transaction of the SQL function that the run called, by a role that
-- may do nothing else. The function is made of `complete`, and raises where that returns nothing.
select done.run_ids, done.group_ids
from evenbeat.settle_run(
    :settled
) as done;

-- name: still_held
-- Whether a run is still open, for a node whose commit of its end was not answered: this waits
-- until that transaction is over.
select pulse.run_id
from evenbeat.pulse
where pulse.id = :job_id
  and pulse.token = :token
for no key update;

-- name: run_ends
-- How these runs ended, if they did, for a node whose writing of the ends was not answered.
select run.id, run.job_id, run.state, run.error_class
from evenbeat.run
where run.id = any (:run_ids::bigint[]);

-- name: unlocked
-- Which of these jobs can be written now. Open transactions have locked the others.
select pulse.id
from evenbeat.pulse
where pulse.id = any (:job_ids::bigint[])
order by pulse.id
for no key update skip locked;
