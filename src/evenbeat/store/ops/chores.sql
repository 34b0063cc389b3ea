-- name: ensure
-- Every chore has its row; a new one is due at once.
insert into evenbeat.chore (name, next_at)
select wanted.name, statement_timestamp()
from unnest(:names::text[]) as wanted (name)
where not exists (select from evenbeat.chore where chore.name = wanted.name)
order by wanted.name
on conflict (name) do nothing;

-- name: waits
-- How long until each is due. Pauses are about processes, not about schedules: they go by the
-- database's own clock even where tests set :now.
select
    chore.name,
    extract(epoch from chore.next_at - statement_timestamp())::float8 as seconds
from evenbeat.chore
where chore.name = any (:names::text[]);

-- name: take
-- For one piece of it. SKIP LOCKED: what another node is doing need not be waited for.
select
    chore.name, chore.cursor, chore.goal, chore.next_at, chore.last_at, chore.last_count,
    chore.last_ms, chore.total_count,
    coalesce(chore.swept_at < :now - interval '1 day', true) as is_sweep_due,
    -- Whoever drew a run's id up to the goal has ended by now. A transaction newer than this one
    -- is of another server, from which this database was restored.
    coalesce(
        pg_snapshot_xmin(pg_current_snapshot()) >= chore.goal_xid
        or pg_current_xact_id() < chore.goal_xid,
        true
    ) as is_settled
from evenbeat.chore
where chore.name = :name
  and chore.next_at <= statement_timestamp()
for no key update skip locked;

-- name: record_piece
-- What the piece came to. The pause holds for every node, so that all of them together take no
-- more than one would.
update evenbeat.chore
set cursor = :cursor,
    next_at = statement_timestamp() + :pause::interval,
    swept_at = case when :is_sweep::boolean then :now else chore.swept_at end,
    round_count = case when :is_end::boolean then 0 else chore.round_count + :count end,
    round_ms = case when :is_end::boolean then 0 else chore.round_ms + :took_ms end,
    last_at = case when :is_end::boolean then :now else chore.last_at end,
    last_count = case when :is_end::boolean then chore.round_count + :count else chore.last_count end,
    last_ms = case when :is_end::boolean then chore.round_ms + :took_ms else chore.last_ms end,
    total_count = chore.total_count + :count
where chore.name = :name
returning
    chore.name, chore.cursor, chore.goal, chore.next_at, chore.last_at, chore.last_count,
    chore.last_ms, chore.total_count;

-- name: set_goal
-- :newest was read before this transaction had its number: whoever drew an id up to it has a
-- smaller one.
update evenbeat.chore
set goal = greatest(chore.goal, :newest),
    goal_xid = pg_current_xact_id()
where chore.name = :name;

-- name: make_all_due
-- All of them at once, from the first key on; counting never goes back.
update evenbeat.chore
set next_at = statement_timestamp(),
    swept_at = null,
    cursor = case when chore.name = :counting then chore.cursor else 0 end,
    round_count = 0,
    round_ms = 0;

-- name: status
select
    chore.name, chore.cursor, chore.goal, chore.next_at, chore.last_at, chore.last_count,
    chore.last_ms, chore.total_count
from evenbeat.chore
order by chore.name;
