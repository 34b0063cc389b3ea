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
-- place came free; a run that was sent and is not among them was fenced: its lease is somebody
-- else's by now.
-- Every array but the first few may come empty: unnest pads with nulls, and null means the usual.
-- Matched by job and token alone. Adding "and it is running", which the token implies, let the
-- planner start from another index and compare every row with every other.
-- Arrays are sorted by job id: rows are locked in that order, as everywhere.
with moved as (
    update evenbeat.pulse as p
    set state = case
            when p.wanted = 'x' then 'x'
            -- What is over is not put aside: there is nothing left to resume.
            when p.wanted is not null
                and (o.job_state in ('c', 'x') or p.wanted = 'z' and o.job_state = 'f')
                and case
                    when coalesce(o.moves_cursor, true) and p.plan_version = o.plan_version
                        then o.next_beat_at
                    else p.next_beat_at
                end is null then o.job_state
            when p.wanted is not null then p.wanted
            when p.state in ('z', 'd', 'x') then p.state
            -- Planned anew while it ran: whether anything is to come is for the new plan to say.
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
closed as (
    insert into evenbeat.run (
        id, job_id, number, state, cause, beat_at, attempt, node_id, started_at, finished_at,
        duration_ms, error_class, error, stack_trace, result, items_crawled, items_indexed,
        reason, skipped_count
    )
    select
        moved.run_id, moved.id, moved.run_number - (moved.missed_count is not null)::integer,
        moved.run_state, moved.cause, case when moved.cause <> 'm' then moved.beat_at end,
        moved.attempt, moved.node_id, moved.started_at, :now, moved.duration_ms,
        moved.error_class, moved.error, moved.stack_trace, moved.result, moved.items_crawled,
        moved.items_indexed, moved.reason, case when moved.run_state = 'k' then 1 end
    from moved
),
skipped as (
    insert into evenbeat.run (
        id, job_id, number, state, cause, beat_at, attempt, started_at, finished_at,
        skipped_count, skipped_until, reason
    )
    select
        nextval('evenbeat.run_id'), moved.id, moved.run_number, 'k', 's', moved.missed_from, 0,
        :now, :now, moved.missed_count, moved.missed_until, moved.missed_reason
    from moved
    where moved.missed_count is not null
),
freed as (
    delete from evenbeat.permit
    using moved
    where moved.permit_group_id is not null
      and permit.group_id = moved.permit_group_id
      and permit.job_id = moved.id
),
-- Only of a beat that is over for good does anybody tell the signature of its error.
buried as (
    insert into evenbeat.dead_letter (
        id, job_id, job_uid, job_name, kind, group_key, payload, terms, beat_at, attempts,
        error_class, error, signature, created_at
    )
    select
        moved.run_id, moved.id, job.uid, job.name, job.kind, job.group_key, job.payload,
        jsonb_build_object(
            'policy', job.policy, 'labels', job.labels, 'runs_on', job.runs_on,
            'priority', pulse.priority, 'group_limit', pulse.group_limit
        ),
        case when moved.cause <> 'm' then moved.beat_at end, moved.attempt, moved.error_class,
        moved.error, moved.signature, :now
    from moved
    join evenbeat.job on job.id = moved.id
    join evenbeat.pulse on pulse.id = moved.id
    where moved.signature is not null
)
select
    array_agg(moved.run_id) as run_ids,
    array_agg(distinct moved.permit_group_id)
        filter (where moved.permit_group_id is not null) as group_ids
from moved;

-- name: settle_run
-- The same for one run, within the transaction of the SQL function that it called and by whoever
-- may do nothing else. The function is made of `complete`, and raises where that returns nothing.
select done.run_ids, done.group_ids
from evenbeat.settle_run(
    :settled
) as done;

-- name: still_held
-- Whether a run is in hand still, for whoever asked to commit its end and never heard the answer:
-- this waits until that transaction is over.
select pulse.run_id
from evenbeat.pulse
where pulse.id = :job_id
  and pulse.token = :token
for no key update;

-- name: run_ends
-- How these runs ended, if they did: for whoever wrote the end and never heard the answer.
select run.id, run.job_id, run.state, run.error_class
from evenbeat.run
where run.id = any (:run_ids::bigint[]);

-- name: unlocked
-- Which of these jobs can be written now: the others are held by somebody's open transaction.
select pulse.id
from evenbeat.pulse
where pulse.id = any (:job_ids::bigint[])
order by pulse.id
for no key update skip locked;
