-- name: uid_of_name
select job.uid
from evenbeat.job
where job.name = :name
  and :is_not_deleted;

-- name: id_of
-- Of a deleted job too: its history stays.
select job.id
from evenbeat.job
where job.uid = :uid;

-- name: definitions
-- The definitions of these jobs, for the nodes that run them.
select
    job.id, job.uid, job.version, job.name, job.kind, job.payload, job.timetable, job.policy,
    job.labels, job.group_key, job.runs_on, job.wording, pulse.group_limit, pulse.priority,
    pulse.plan_version
from evenbeat.job
join evenbeat.pulse on pulse.id = job.id
where job.id = any (:ids::bigint[]);

-- name: similar_names
-- Names to suggest for one that does not exist. The index of names has only the jobs with a name, and
-- is read in its order.
select job.name
from evenbeat.job
where job.name is not null
  and :is_not_deleted
  and abs(char_length(job.name) - :length::integer) <= :difference::integer
order by job.name
limit :limit;
