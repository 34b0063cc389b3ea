-- name: switch_on
-- Switched on again, it is still on since the first time; only the reason is another.
insert into evenbeat.maintenance (since, reason, actor)
values (:now, :reason, :actor)
on conflict (is_on) do update
set reason = excluded.reason,
    actor = excluded.actor;

-- name: switch_off
delete from evenbeat.maintenance;

-- name: lock
-- Who switches waits for who is switching: what was before is then true when it is written down.
-- Claims only read, and read on.
lock table evenbeat.maintenance in share row exclusive mode;

-- name: status
select maintenance.since, maintenance.reason, maintenance.actor
from evenbeat.maintenance;
