-- A plan is written once, when it is made. It is applied and undone under a lock on its row, so that
-- of two transactions that apply one plan, only one does.

-- name: add
insert into evenbeat.rebalance_plan (
    id, made_at, made_by, group_key, max_moves, seen, job_count, before, after, attainable_score,
    suggestion, move_count, skip_count, undoes
)
values (
    :id, :made_at, :made_by, :group_key, :max_moves, :seen, :job_count, :before::jsonb,
    :after::jsonb, :attainable_score, :suggestion, :move_count, :skip_count, :undoes
);

-- name: add_moves
insert into evenbeat.rebalance_move (
    plan_id, job_id, job_uid, old_phase_s, new_phase_s, old_next_at, new_next_at, effective_from
)
select
    :plan_id, o.job_id, o.job_uid, o.old_phase_s, o.new_phase_s, o.old_next_at, o.new_next_at,
    o.effective_from
from unnest(
    :job_ids::bigint[], :job_uids::uuid[], :old_phases::integer[], :new_phases::integer[],
    :old_next::timestamptz[], :new_next::timestamptz[], :effective_from::timestamptz[]
) as o (job_id, job_uid, old_phase_s, new_phase_s, old_next_at, new_next_at, effective_from);

-- name: add_skips
insert into evenbeat.rebalance_skip (plan_id, job_id, job_uid, reason)
select :plan_id, o.job_id, o.job_uid, o.reason
from unnest(:job_ids::bigint[], :job_uids::uuid[], :reasons::text[]) as o (job_id, job_uid, reason);

-- fragment: summary
p.id, p.made_at, p.made_by, p.group_key, p.max_moves, p.seen, p.job_count, p.before, p.after,
p.attainable_score, p.suggestion, p.move_count, p.skip_count, p.undoes, p.applied_at, p.applied_by,
p.undone_at, p.undone_by

-- name: by_id
select
    :summary
from evenbeat.rebalance_plan as p
where p.id = :id;

-- name: lock
-- Locks the plan, to apply or undo it.
select
    :summary
from evenbeat.rebalance_plan as p
where p.id = :id
for no key update;

-- name: last_applied
-- The newest rebalance that was not undone; undos, and plans that moved nothing, do not count.
select
    :summary
from evenbeat.rebalance_plan as p
where p.number is not null
  and p.undone_at is null
  and p.move_count > 0
order by p.number desc
limit 1;

-- name: newest_change
-- The number of the newest change of the load map.
select coalesce(max(load_delta.seq), 0)
from evenbeat.load_delta;

-- name: moves
-- A page of the moves: a hundred thousand rows take longer than a statement may.
select
    move.job_id, move.job_uid, move.old_phase_s, move.new_phase_s, move.old_next_at,
    move.new_next_at, move.effective_from
from evenbeat.rebalance_move as move
where move.plan_id = :plan_id
  and move.job_id > :after
order by move.job_id
limit :limit;

-- name: skips
select skip.job_id, skip.job_uid, skip.reason
from evenbeat.rebalance_skip as skip
where skip.plan_id = :plan_id
  and skip.job_id > :after
order by skip.job_id
limit :limit;

-- name: page
-- Newest first.
select
    :summary
from evenbeat.rebalance_plan as p
order by p.made_at desc, p.id desc
limit :limit;

-- name: mark_applied
-- Rebalances get a number; the lock of the map keeps two from taking the same. Undos get none.
update evenbeat.rebalance_plan as p
set applied_at = :now,
    applied_by = :applied_by,
    number = case
        when p.undoes is null
            then (select coalesce(max(other.number), 0) + 1 from evenbeat.rebalance_plan as other)
    end
where p.id = :id
  and p.applied_at is null;

-- name: mark_undone
update evenbeat.rebalance_plan as p
set undone_at = :now,
    undone_by = :undone_by
where p.id = :id
  and p.applied_at is not null
  and p.undone_at is null;

-- name: rebalances
-- How many rebalances were applied, and what the last one did.
select p.number as total, p.move_count as moved, p.skip_count as skipped
from evenbeat.rebalance_plan as p
where p.number is not null
order by p.number desc
limit 1;

-- name: forget
-- Remove old plans with their moves, at most :limit. The last applied one stays: its number is the count.
delete from evenbeat.rebalance_plan as p
where p.id in (
    select old.id
    from evenbeat.rebalance_plan as old
    where old.made_at < :now - (
            case when old.applied_at is null then :previews_for::interval else :applied_for::interval end
        )
      and (
            old.number is null
            or old.number < (select max(other.number) from evenbeat.rebalance_plan as other)
        )
    order by old.made_at, old.id
    limit :limit
);
