-- name: uid_of_name
select job.uid
from evenbeat.job
where job.name = :name
  and job.deleted_at is null;

-- name: id_of
-- Of a deleted job too: what is told of it stays.
select job.id
from evenbeat.job
where job.uid = :uid;

-- name: definitions
-- What people wrote of these jobs, for the nodes that run them.
select
    job.id, job.uid, job.version, job.name, job.kind, job.payload, job.timetable, job.policy,
    job.labels, job.group_key, job.runs_on, job.wording, pulse.group_limit, pulse.priority,
    pulse.plan_version
from evenbeat.job
join evenbeat.pulse on pulse.id = job.id
where job.id = any (:ids::bigint[]);

-- name: similar_names
-- For a message about a name that is not there. In the order of the index of names, which has no
-- one-off jobs in it that nobody has named.
select job.name
from evenbeat.job
where job.name is not null
  and job.deleted_at is null
  and abs(char_length(job.name) - :length::integer) <= :difference::integer
order by job.name
limit :limit;
