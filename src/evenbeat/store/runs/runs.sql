-- fragment: shown
    run_all.id, run_all.number, run_all.state, run_all.cause, run_all.beat_at, run_all.attempt,
    run_all.started_at, run_all.finished_at, run_all.duration_ms, node.name as node,
    run_all.error_class, run_all.error, run_all.stack_trace, run_all.result,
    run_all.items_crawled, run_all.items_indexed, run_all.reason, run_all.skipped_count,
    run_all.skipped_until

-- fragment: is_shown
-- Runs that were handed back or snoozed come again as the same attempt: lists may leave them out.
(
    :with_returned::boolean
    or coalesce(run_all.error_class, '') not in ('handed_back', 'snoozed')
)

-- name: page
-- The runs of a job, the newest first, with the open one.
select
    :shown
from evenbeat.run_all
left join evenbeat.node on node.id = run_all.node_id
where run_all.job_id = :job_id
  and (:with_skipped::boolean or run_all.state <> 'k')
  and :is_shown
order by run_all.number desc
limit :limit
offset :offset;

-- name: count
select count(*)
from evenbeat.run_all
where run_all.job_id = :job_id
  and (:with_skipped::boolean or run_all.state <> 'k')
  and :is_shown;

-- name: export
-- Runs of all jobs, the oldest first, with open runs and runs of removed jobs.
select
    :shown, job.uid as job_uid, job.name as job_name, job.kind
from evenbeat.run_all
left join evenbeat.job on job.id = run_all.job_id
left join evenbeat.node on node.id = run_all.node_id
where (:job_uid::uuid is null or job.uid = :job_uid)
  and (:since::timestamptz is null or run_all.started_at >= :since)
  and (:until::timestamptz is null or run_all.started_at < :until)
  and (:states::"char"[] is null or run_all.state = any (:states))
order by run_all.id;

-- name: by_id
-- One run, ended or open. The runs of a removed job may still be there: they are not found.
select
    :shown, job.uid as job_uid
from evenbeat.run_all
join evenbeat.job on job.id = run_all.job_id
left join evenbeat.node on node.id = run_all.node_id
where run_all.id = :run_id;

-- name: newest
-- The runs of all jobs, or of one job or some states, the newest first, with open ones.
-- Ordered by id: ids count up as runs begin.
select
    :shown, job.uid as job_uid, job.name as job_name, job.kind
from evenbeat.run_all
join evenbeat.job on job.id = run_all.job_id
left join evenbeat.node on node.id = run_all.node_id
where (:job_id::bigint is null or run_all.job_id = :job_id)
  and (:states::"char"[] is null or run_all.state = any(:states))
  and (:older_than::bigint is null or run_all.id < :older_than)
order by run_all.id desc
limit :limit;

-- name: lines
-- The log lines of a run after a given one, so that a client that follows it reads only new ones.
select run_log.id, run_log.at, run_log.level, run_log.message
from evenbeat.run_log
where run_log.run_id = :run_id
  and run_log.id > :after
order by run_log.id
limit :limit;
