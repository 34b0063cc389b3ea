-- name: write
insert into evenbeat.audit (
    at, actor, action, job_id, job_uid, job_name, request_id, before, after
)
select
    :now, :actor, o.action, o.job_id, o.job_uid, o.job_name, :request_id, o.before, o.after
from unnest(
    :actions::text[], :job_ids::bigint[], :job_uids::uuid[], :job_names::text[],
    :before::jsonb[], :after::jsonb[]
) as o (action, job_id, job_uid, job_name, before, after);

-- name: page
-- The newest first; :older_than is the last id of the previous page. A deleted job keeps its id.
select
    audit.id, audit.at, audit.actor, audit.action, audit.job_uid, audit.job_name,
    audit.request_id, audit.before, audit.after
from evenbeat.audit
where (:job_id::bigint is null or audit.job_id = :job_id::bigint)
  and (:actor::text is null or audit.actor = :actor::text)
  and (:older_than::bigint is null or audit.id < :older_than::bigint)
order by audit.id desc
limit :limit;
