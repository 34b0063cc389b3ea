-- Leases are about processes, not about schedules: these statements ask the database's own
-- clock even where tests set :now, else moving the clock would bury every living node.

-- name: join
insert into evenbeat.node (name, kinds, labels, joined_at, seen_at, alive_until)
values (
    :name, :kinds, :labels, statement_timestamp(), statement_timestamp(),
    statement_timestamp() + make_interval(secs => :lease_seconds)
)
returning node.id;

-- name: open_lanes
insert into evenbeat.lane (kind, runs_on)
select served.kind, :runs_on::text[]
from unnest(:kinds::text[]) as served (kind)
where not exists (
    select from evenbeat.lane where lane.kind = served.kind and lane.runs_on = :runs_on::text[]
)
order by served.kind
on conflict (kind, runs_on) do nothing;

-- name: lanes
select lane.id, lane.kind, lane.runs_on
from evenbeat.lane;

-- name: renew
-- No row comes back for a node that was declared dead: that is for good.
update evenbeat.node
set alive_until = statement_timestamp() + make_interval(secs => :lease_seconds),
    seen_at = statement_timestamp()
where node.id = :node_id
  and node.dead_at is null
returning node.id;

-- name: leave
update evenbeat.node
set dead_at = statement_timestamp()
where node.id = :node_id
  and node.dead_at is null;

-- name: mark_dead
-- Rows of nodes stay for ever, since runs name them; the index knows those that were not swept.
-- SKIP LOCKED: while one node is declaring another dead, a third need not wait to do the same.
update evenbeat.node
set dead_at = statement_timestamp()
where node.id in (
    select stale.id
    from evenbeat.node as stale
    where stale.dead_at is null
      and stale.swept_at is null
      and stale.alive_until < statement_timestamp()
    order by stale.id
    for update skip locked
)
returning node.id, node.name;

-- name: unswept
-- Dead nodes whose runs may not have been taken over yet, by us or by whoever died doing it.
select node.id
from evenbeat.node
where node.dead_at is not null
  and node.swept_at is null
order by node.id;

-- name: mark_swept
-- Nothing is claimed for a dead node, so that what was swept stays clean.
update evenbeat.node
set swept_at = statement_timestamp()
where node.id = :node_id
  and not exists (
      select from evenbeat.pulse where pulse.node_id = :node_id and pulse.token is not null
  );

-- name: count_live_nodes
select count(*)
from evenbeat.node
where node.dead_at is null
  and node.swept_at is null
  and node.alive_until > statement_timestamp();

-- name: list_nodes
-- Those that live, and the last :dead of those that died, with the runs they have in hand.
with shown as (
    (
        select node.id
        from evenbeat.node
        where node.dead_at is null
        order by node.id
    )
    union all
    (
        select node.id
        from evenbeat.node
        where node.dead_at is not null
        order by node.id desc
        limit :dead
    )
)
select
    node.id, node.name, node.kinds, node.labels, node.joined_at, node.seen_at, node.alive_until,
    node.draining_at, node.dead_at,
    node.dead_at is null and node.alive_until > statement_timestamp() as is_alive,
    (
        select count(*) from evenbeat.pulse
        where pulse.node_id = node.id and pulse.token is not null
    ) as running
from shown
join evenbeat.node on node.id = shown.id
order by node.dead_at is not null, node.id desc;

-- name: drain
update evenbeat.node
set draining_at = case when :is_draining::boolean then statement_timestamp() end
where node.id = :node_id
  and node.dead_at is null;

-- name: last_seen_at
select max(node.seen_at)
from evenbeat.node;
