-- name: ensure
-- Make the missing rows; a new chore is due at once.
insert into evenbeat.chore (name, next_at)
select wanted.name, statement_timestamp()
from unnest(:names::text[]) as wanted (name)
where not exists (select from evenbeat.chore where chore.name = wanted.name)
order by wanted.name
on conflict (name) do nothing;

-- name: waits
-- How long until each is due, by the database's own clock even where tests set :now: pauses belong to
-- processes, not to schedules.
select
    chore.name,
    extract(epoch from chore.next_at - statement_timestamp())::float8 as seconds
from evenbeat.chore
where chore.name = any (:names::text[]);

-- name: take
-- Take the chore for one piece. SKIP LOCKED: a node does not wait for a chore that another one does.
select
    chore.name, chore.cursor, chore.goal, chore.next_at, chore.last_at, chore.last_count,
    chore.last_ms, chore.total_count,
    coalesce(chore.swept_at < :now - interval '1 day', true) as is_sweep_due,
    -- Whether every transaction that took a run id up to the goal has ended. A goal with a newer
    -- transaction than this one comes from another server: the database was restored.
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
-- Record the result of the piece. The pause holds for every node, so that all nodes together do no more
-- than one would.
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
-- :newest was read before this transaction got its number, so that every transaction that took an id up
-- to it has a smaller number.
update evenbeat.chore
set goal = greatest(chore.goal, :newest),
    goal_xid = pg_current_xact_id()
where chore.name = :name;

-- name: make_all_due
-- Make all chores due at once, from their first key on; only counting keeps its cursor.
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
