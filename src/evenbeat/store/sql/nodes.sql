-- Leases are about processes, not about schedules: these statements ask the database's own
-- clock even where tests set :now, else moving the clock would bury every living node.

-- name: join
insert into evenbeat.node (name, kinds, joined_at, alive_until)
values (
    :name, :kinds, statement_timestamp(),
    statement_timestamp() + make_interval(secs => :lease_seconds)
)
returning node.id;

-- name: register_kinds
insert into evenbeat.kind (name)
select served.name
from unnest(:kinds::text[]) as served (name)
where not exists (select from evenbeat.kind where kind.name = served.name)
order by served.name
on conflict (name) do nothing;

-- name: kinds
select kind.name, kind.id
from evenbeat.kind;

-- name: renew
-- No row comes back for a node that was declared dead: that is for good.
update evenbeat.node
set alive_until = statement_timestamp() + make_interval(secs => :lease_seconds)
where node.id = :node_id
  and node.dead_at is null
returning node.id;

-- name: leave
update evenbeat.node
set dead_at = statement_timestamp()
where node.id = :node_id
  and node.dead_at is null;

-- name: mark_dead
-- SKIP LOCKED: while one node is declaring another dead, a third need not wait to do the same.
update evenbeat.node
set dead_at = statement_timestamp()
where node.id in (
    select stale.id
    from evenbeat.node as stale
    where stale.dead_at is null
      and stale.alive_until < statement_timestamp()
    order by stale.id
    for update skip locked
)
returning node.id, node.name;

-- name: bereaved
-- Dead nodes with runs in hand: those just declared dead, and those whose undertaker died too.
select distinct pulse.node_id
from evenbeat.pulse
join evenbeat.node on node.id = pulse.node_id
where pulse.token is not null
  and node.dead_at is not null;

-- name: live
select count(*)
from evenbeat.node
where node.dead_at is null
  and node.alive_until > statement_timestamp();
