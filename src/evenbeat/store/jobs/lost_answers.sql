-- name: is_backend_gone
-- Whether the backend of a lost connection has ended. This is asked before the look-up of the jobs:
-- in the other order the backend could store them in between.
select not exists (select from pg_stat_activity where pg_stat_activity.pid = :pid);

-- name: find_stored_uids
select job.uid
from evenbeat.job
where job.uid = any (:uids::uuid[]);
