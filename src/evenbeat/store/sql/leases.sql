-- name: claim_due
-- Take up to :places[i] due jobs of :kind_ids[i] for :node_id, in turn: one HOT update a job.
-- One secret :token for the whole claim; with the job's id it fences every later write.
-- The node row is locked FOR SHARE: no lease is born on a node that is being declared dead.
-- Picking by ctid is safe because nothing waits here (SKIP LOCKED); a statement that waits
-- would not find the version born meanwhile.
with alive as materialized (
    select node.id
    from evenbeat.node
    where node.id = :node_id
      and node.dead_at is null
      and node.alive_until > statement_timestamp()
    for share
)
update evenbeat.pulse as p
set token = :token,
    node_id = :node_id,
    run_id = nextval('evenbeat.run_id'),
    run_number = p.run_number + 1,
    started_at = :now,
    cause = case
        when p.manual_at <= :now then 'm'
        when p.retry_at is not null then 't'
        when p.next_beat_at < :now - interval '1 hour' then 'u'
        else 's'
    end,
    beat_at = case
        when p.manual_at <= :now or p.retry_at is not null then p.beat_at
        else p.next_beat_at
    end,
    attempt = case
        when p.manual_at <= :now then p.attempt
        when p.retry_at is not null then p.attempt + 1
        else 1
    end,
    manual_attempt = case
        when p.manual_at <= :now then p.manual_attempt + 1
        else p.manual_attempt
    end
where p.ctid = any (array(
    select picked.tid
    from unnest(:kind_ids::smallint[], :places::integer[]) as served (kind_id, places)
    cross join lateral (
        select q.ctid as tid
        from evenbeat.pulse as q
        where q.kind_id = served.kind_id
          and q.turn_at <= :now
          and q.due_at <= :now
          and q.token is null
        order by q.turn_at
        limit served.places
        for no key update skip locked
    ) as picked
    where exists (select from alive)
))
returning
    p.id, p.run_id, p.run_number, p.cause, p.beat_at, p.attempt, p.manual_attempt, p.started_at,
    p.next_beat_at, p.plan_version, p.def_version, p.beat_count, p.failure_streak, p.lost_streak;

-- name: in_hand
-- The runs that a node has in hand, by the database's word, in the shape of a claim.
select
    p.id, p.run_id, p.run_number, p.cause, p.beat_at, p.attempt, p.manual_attempt, p.started_at,
    p.next_beat_at, p.plan_version, p.def_version, p.beat_count, p.failure_streak, p.lost_streak, p.token
from evenbeat.pulse as p
where p.node_id = :node_id
  and p.token is not null
order by p.id;

-- name: next_due_in
-- How long until something is due, as a duration: nodes never compare instants of their own.
-- The first in turn need not be the first that is due: priority brings a turn forward by up to
-- 1000 seconds, a due instant never. So the second part looks at every turn from which a due
-- instant within :horizon can come. The limit spares that look where something is due already.
select extract(epoch from min(nearest.due_at) - :now)::float8
from unnest(:kind_ids::smallint[]) as served (kind_id)
cross join lateral (
    select either.due_at
    from (
        (
            select pulse.due_at
            from evenbeat.pulse
            where pulse.kind_id = served.kind_id
              and pulse.turn_at <= :now
              and pulse.due_at <= :now
              and pulse.token is null
            order by pulse.turn_at
            limit 1
        )
        union all
        select min(pulse.due_at)
        from evenbeat.pulse
        where pulse.kind_id = served.kind_id
          and pulse.turn_at > :now - interval '1000 seconds'
          and pulse.turn_at <= :now + :horizon::interval
          and pulse.due_at > :now
          and pulse.due_at <= :now + :horizon::interval
          and pulse.token is null
    ) as either
    limit 1
) as nearest;

-- name: complete
-- Settle a batch of runs: the pulse, the history row and the row of missed beats in one
-- statement. Returns the runs that were settled; one that was sent and is not among them was
-- fenced: its lease is somebody else's by now.
-- Matched by job and token alone. Adding "and it is running", which the token implies, let the
-- planner start from another index and compare every row with every other.
-- Arrays are sorted by job id: rows are locked in that order, as everywhere.
with moved as (
    update evenbeat.pulse as p
    set state = case when p.state in ('z', 'd', 'x') then p.state else o.job_state end,
        state_at = :now,
        next_beat_at = case
            when o.moves_cursor and p.plan_version = o.plan_version then o.next_beat_at
            else p.next_beat_at
        end,
        retry_at = case when p.cause = 'm' then p.retry_at else o.retry_at end,
        manual_at = case
            when p.cause = 'm' and p.manual_at <= p.started_at then o.retry_at
            else p.manual_at
        end,
        attempt = case when p.cause = 'm' then p.attempt else o.attempts_used end,
        manual_attempt = case
            when p.cause <> 'm' then p.manual_attempt
            when o.retry_at is null then 0
            else o.attempts_used
        end,
        token = null,
        run_number = p.run_number + (o.missed_count is not null)::integer,
        completed_count = p.completed_count + (o.run_state = 'c')::integer,
        failed_count = p.failed_count + (o.run_state = 'f')::integer,
        beat_count = p.beat_count
            + (p.cause <> 'm' and o.retry_at is null and o.run_state <> 'k')::integer,
        failure_streak = o.failure_streak,
        lost_streak = o.lost_streak
    from unnest(
        :job_ids::bigint[], :tokens::bigint[], :duration_ms::bigint[], :run_states::"char"[],
        :job_states::"char"[], :plan_versions::integer[], :moves_cursor::boolean[],
        :next_beats::timestamptz[], :retries::timestamptz[], :attempts::smallint[],
        :attempts_used::smallint[],
        :failure_streaks::integer[], :lost_streaks::smallint[], :error_classes::text[],
        :errors::text[], :stack_traces::text[], :results::jsonb[], :items_crawled::integer[],
        :items_indexed::integer[], :reasons::text[], :missed_counts::integer[],
        :missed_from::timestamptz[], :missed_until::timestamptz[], :missed_reasons::text[]
    ) as o (
        job_id, token, duration_ms, run_state, job_state, plan_version, moves_cursor,
        next_beat_at, retry_at, attempt, attempts_used, failure_streak, lost_streak, error_class, error,
        stack_trace, result, items_crawled, items_indexed, reason, missed_count, missed_from,
        missed_until, missed_reason
    )
    where p.id = o.job_id
      and p.token = o.token
    returning
        p.id, p.run_id, p.run_number, p.cause, p.beat_at, p.node_id, p.started_at, o.run_state,
        o.attempt, o.duration_ms, o.error_class, o.error, o.stack_trace, o.result,
        o.items_crawled, o.items_indexed, o.reason, o.missed_count, o.missed_from,
        o.missed_until, o.missed_reason
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
)
select moved.run_id
from moved;
