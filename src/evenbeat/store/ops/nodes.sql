-- Nodes and their leases. These statements use the database's own clock even where tests set :now:
-- leases belong to processes, and moving the clock must not end them.

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
-- Returns no row for a node that was declared dead; such a node never comes back to life.
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
-- Rows of nodes are never removed, since runs refer to them; an index has those that were not swept.
-- SKIP LOCKED: while one node declares another dead, a third one does not wait to do the same.
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
-- Dead nodes whose runs may not have been settled yet; the node that began to settle them may have died.
select node.id
from evenbeat.node
where node.dead_at is not null
  and node.swept_at is null
order by node.id;

-- name: mark_swept
-- A dead node claims nothing more: once it holds no runs, it never will again.
update evenbeat.node
set swept_at = statement_timestamp()
where node.id = :node_id
  and not exists (
      select from evenbeat.pulse where pulse.node_id = :node_id and pulse.token is not null
  );

-- name: count_live_nodes
select count(*)
from evenbeat.node
where :is_alive;

-- name: list_nodes
-- Every node that was not declared dead, and the newest :dead of the others, each with the number of
-- its runs in progress.
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
