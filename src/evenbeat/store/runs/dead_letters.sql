-- Dead letters as people handle them. The completion of a run writes them, retention removes them.

-- fragment: shown
    dead_letter.id, dead_letter.job_id, dead_letter.job_uid, dead_letter.job_name,
    dead_letter.kind, dead_letter.group_key, dead_letter.payload, dead_letter.terms,
    dead_letter.beat_at, dead_letter.attempts, dead_letter.error_class, dead_letter.error,
    dead_letter.signature, dead_letter.created_at, dead_letter.acknowledged_at,
    dead_letter.acknowledged_by, dead_letter.note, dead_letter.owner, dead_letter.ending,
    dead_letter.ended_at, dead_letter.ended_by, dead_letter.requeued_as

-- fragment: state
-- o open, a acknowledged; or how the letter ended: r requeued, d discarded.
coalesce(
    dead_letter.ending,
    case when dead_letter.acknowledged_at is null then 'o'::"char" else 'a'::"char" end
)

-- fragment: matches
(:ids::bigint[] is null or dead_letter.id = any (:ids))
and (:states::"char"[] is null or :state = any (:states))
and (:job_uid::uuid is null or dead_letter.job_uid = :job_uid)
and (:job_name::text is null or dead_letter.job_name = :job_name)
and (:kind::text is null or dead_letter.kind = :kind)
and (:group::text is null or dead_letter.group_key = :group)
and (:signature::text is null or dead_letter.signature = :signature)
and (:owner::text is null or dead_letter.owner = :owner)

-- name: page
-- Unacknowledged letters first, then the newest first: run ids grow with time.
select
    :shown
from evenbeat.dead_letter
where :matches
order by dead_letter.acknowledged_at is not null, dead_letter.id desc
limit :limit
offset :offset;

-- name: count
select count(*)
from evenbeat.dead_letter
where :matches;

-- name: groups
-- Grouped by the signature of the error: those with most open letters first, then the most frequent.
select
    dead_letter.signature,
    count(*) as count,
    count(*) filter (where dead_letter.acknowledged_at is null) as open,
    count(distinct dead_letter.job_id) as jobs,
    array_agg(distinct dead_letter.kind) as kinds,
    min(dead_letter.created_at) as first_at,
    max(dead_letter.created_at) as last_at,
    max(dead_letter.id) as newest_id
from evenbeat.dead_letter
where :matches
group by dead_letter.signature
order by open desc, count desc, dead_letter.signature
limit :limit
offset :offset;

-- name: group_count
select count(distinct dead_letter.signature)
from evenbeat.dead_letter
where :matches;

-- name: runs
-- The failed attempts at the beat of a letter, the last first. A manual run has no beat: then its last
-- :attempts failed runs. Only the newest :most runs of the job are read.
select
    failed.id, failed.number, failed.state, failed.cause, failed.beat_at, failed.attempt,
    failed.started_at, failed.finished_at, failed.duration_ms, node.name as node,
    failed.error_class, failed.error, failed.stack_trace, failed.result, failed.items_crawled,
    failed.items_indexed, failed.reason, failed.skipped_count, failed.skipped_until
from (
    select
        run.id, run.number, run.state, run.cause, run.beat_at, run.attempt, run.started_at,
        run.finished_at, run.duration_ms, run.node_id, run.error_class, run.error,
        run.stack_trace, run.result, run.items_crawled, run.items_indexed, run.reason,
        run.skipped_count, run.skipped_until
    from evenbeat.run
    where run.job_id = :job_id
      and run.number <= (select last.number from evenbeat.run as last where last.id = :letter_id)
    order by run.number desc
    limit :most
) as failed
left join evenbeat.node on node.id = failed.node_id
where failed.state = 'f'
  and failed.beat_at is not distinct from :beat_at::timestamptz
order by failed.number desc
limit case when :beat_at::timestamptz is null then :attempts::integer end;

-- name: lock_letters
-- The letters that match, in id order, locked until the end of the transaction.
select
    :shown
from evenbeat.dead_letter
where :matches
order by dead_letter.id
limit :limit
for no key update;

-- name: select_letters
-- The same without a lock, for a dry run.
select
    :shown
from evenbeat.dead_letter
where :matches
order by dead_letter.id
limit :limit;

-- name: acknowledge
update evenbeat.dead_letter
set acknowledged_at = :now,
    acknowledged_by = :actor,
    note = coalesce(:note, dead_letter.note),
    owner = coalesce(:owner, dead_letter.owner)
where dead_letter.id = any (:ids::bigint[])
  and dead_letter.acknowledged_at is null;

-- name: end
-- Requeue or discard letters; an unacknowledged one is thereby acknowledged.
update evenbeat.dead_letter
set acknowledged_at = coalesce(dead_letter.acknowledged_at, :now),
    acknowledged_by = coalesce(dead_letter.acknowledged_by, :actor),
    note = coalesce(:note, dead_letter.note),
    owner = coalesce(:owner, dead_letter.owner),
    ending = :ending::"char",
    ended_at = :now,
    ended_by = :actor,
    requeued_as = ended.job_uid
from unnest(:ids::bigint[], :requeued_as::uuid[]) as ended (id, job_uid)
where dead_letter.id = ended.id
  and dead_letter.ending is null;
