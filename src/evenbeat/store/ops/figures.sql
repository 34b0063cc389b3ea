-- fragment: is_due
-- Whether a claim may take the job now.
q.turn_at <= :now
and q.due_at <= :now
and q.token is null

-- fragment: due_ungrouped
-- The due jobs of a lane that are in no group. Jobs with and without a group have separate indexes.
select q.due_at
from evenbeat.pulse as q
where q.lane_id = lane.id
  and q.group_id is null
  and :is_due
order by q.turn_at

-- fragment: due_grouped
-- The due jobs of a lane that are in a group.
select q.due_at
from evenbeat.pulse as q
where q.lane_id = lane.id
  and q.group_id is not null
  and :is_due
order by q.turn_at

-- name: lag
-- How late the schedule is, for the health probe: the most overdue among the first :most jobs of each
-- lane; lanes that a live node serves are apart from those that no live node serves. Jobs that are
-- parked, paused or disabled are not due. During maintenance nothing counts as late.
with live as materialized (
    select node.kinds, node.labels
    from evenbeat.node
    where :is_alive
),
late as materialized (
    select
        exists (
            select from live
            where lane.kind = any (live.kinds)
              and lane.runs_on <@ live.labels
        ) as is_served,
        least(
            (
                select min(head.due_at)
                from (
                    :due_ungrouped
                    limit :most
                ) as head
            ),
            (
                select min(head.due_at)
                from (
                    :due_grouped
                    limit :most
                ) as head
            )
        ) as due_at
    from evenbeat.lane
    where not exists (select from evenbeat.maintenance)
)
select
    coalesce(
        extract(epoch from :now - min(late.due_at) filter (where late.is_served)), 0
    )::float8 as served,
    coalesce(
        extract(epoch from :now - min(late.due_at) filter (where not late.is_served)), 0
    )::float8 as unserved,
    (select count(*) from live) as nodes,
    -- How long ago the last lease ended; null: no node has ever joined.
    (
        select extract(
            epoch from statement_timestamp() - max(least(node.alive_until, node.dead_at))
        )
        from evenbeat.node
    )::float8 as silent
from late;

-- name: lanes
-- The due jobs of each lane, counted up to :most.
select
    lane.kind,
    lane.runs_on,
    exists (
        select from evenbeat.node
        where :is_alive
          and lane.kind = any (node.kinds)
          and lane.runs_on <@ node.labels
    ) as is_served,
    waiting.due,
    coalesce(extract(epoch from :now - waiting.oldest_at), 0)::float8 as lag
from evenbeat.lane
cross join lateral (
    select count(*) as due, min(head.due_at) as oldest_at
    from (
        (
            :due_ungrouped
            limit :most
        )
        union all
        (
            :due_grouped
            limit :most
        )
    ) as head
) as waiting
order by lane.kind, lane.runs_on;

-- name: dead_letters
-- Counted up to :most.
select count(*) as count, coalesce(extract(epoch from :now - min(open.created_at)), 0)::float8 as age
from (
    select dead_letter.created_at
    from evenbeat.dead_letter
    where dead_letter.acknowledged_at is null
    order by dead_letter.created_at
    limit :most
) as open;

-- name: run_totals
select
    run_total.kind, run_total.completed, run_total.failed, run_total.lost, run_total.cancelled,
    run_total.skipped
from evenbeat.run_total
order by run_total.kind;

-- name: database
-- Figures from PostgreSQL's own views. The oldest transaction and the oldest snapshot keep autovacuum
-- from removing dead rows. The server shows the age of other users' sessions only to members of
-- pg_read_all_stats.
select
    pg_database_size(current_database()) as size_bytes,
    count(*) filter (where activity.datname = current_database()) as connections,
    current_setting('max_connections')::integer as max_connections,
    coalesce(
        max(extract(epoch from clock_timestamp() - activity.xact_start))
            filter (where activity.datname = current_database()),
        0
    )::float8 as oldest_transaction,
    coalesce(
        greatest(
            max(age(activity.backend_xmin)),
            (select max(age(slot.xmin)) from pg_replication_slots as slot),
            (select max(age(prepared.transaction)) from pg_prepared_xacts as prepared)
        ),
        0
    )::bigint as xmin_age
from pg_stat_activity as activity
where activity.pid <> pg_backend_pid();

-- name: tables
select
    stat.relname as name,
    stat.n_live_tup as live,
    stat.n_dead_tup as dead,
    extract(epoch from clock_timestamp() - greatest(stat.last_autovacuum, stat.last_vacuum))::float8
        as vacuumed_ago
from pg_stat_user_tables as stat
where stat.schemaname = 'evenbeat'
order by stat.relname;

-- name: allow_sequential_scans
-- For a statement that reads a whole table: the engine's connections switch sequential scans off.
select set_config('enable_seqscan', 'on', true);

-- name: jobs_by_state
-- Reads every pulse; one node does it for the whole cluster. Deleted jobs are subtracted: they are few,
-- and have an index.
select counted.state, sum(counted.count)::bigint as count
from (
    select :current_state as state, count(*) as count
    from evenbeat.pulse
    group by 1
    union all
    select :current_state, -count(*)
    from evenbeat.job
    join evenbeat.pulse on pulse.id = job.id
    where job.deleted_at is not null
    group by 1
) as counted
group by counted.state
having sum(counted.count) > 0;

-- name: save
insert into evenbeat.figure (name, taken_at, value)
values (:name, :now, :value::jsonb)
on conflict (name) do update
set taken_at = excluded.taken_at,
    value = excluded.value;

-- name: read
select figure.name, figure.taken_at, figure.value
from evenbeat.figure
where figure.name = any (:names::text[]);
