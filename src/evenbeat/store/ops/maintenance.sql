-- name: switch_on
-- If it is on already, it keeps its beginning and gets the new reason and actor.
insert into evenbeat.maintenance (since, reason, actor)
values (:now, :reason, :actor)
on conflict (is_on) do update
set reason = excluded.reason,
    actor = excluded.actor;

-- name: switch_off
delete from evenbeat.maintenance;

-- name: lock
-- One transaction switches at a time, so that the state before, which goes into the audit, is right.
-- Claims only read the table, and do not wait for this lock.
lock table evenbeat.maintenance in share row exclusive mode;

-- name: status
select maintenance.since, maintenance.reason, maintenance.actor
from evenbeat.maintenance;
