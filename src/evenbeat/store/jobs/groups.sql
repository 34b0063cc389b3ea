-- fragment: shown
    job_group.id, job_group.key, job_group.max_running, job_group.pace, job_group.burst,
    job_group.paused_at, job_group.ready_at, job_group.created_at, job_group.limits_at

-- name: ensure
-- The first job that names a group creates it with its limits; later jobs do not change it.
-- Keys are inserted in order: two transactions that create the same groups wait for each other, and
-- not in a circle.
insert into evenbeat.job_group (key, max_running, pace, burst, created_at, limits_at)
select named.key, named.max_running, named.pace, named.burst, :now, :now
from unnest(
    :keys::text[], :max_running::integer[], :paces::interval[], :bursts::integer[]
) as named (key, max_running, pace, burst)
where not exists (select from evenbeat.job_group where job_group.key = named.key)
order by named.key collate "C"
on conflict (key) do nothing;

-- name: by_keys
select
    :shown
from evenbeat.job_group
where job_group.key = any (:keys::text[]);

-- name: by_key
select
    :shown
from evenbeat.job_group
where job_group.key = :key;

-- name: lock_key
-- Read a group and lock it until the end of the transaction.
select
    :shown
from evenbeat.job_group
where job_group.key = :key
for no key update;

-- name: page
-- Groups by key: how many places are taken, how many jobs wait for one, and since when the first of
-- these is due.
select
    :shown,
    (select count(*) from evenbeat.permit where permit.group_id = job_group.id) as running,
    parked.waiting,
    parked.waiting_since
from evenbeat.job_group
cross join lateral (
    select
        count(*) as waiting,
        min(least(coalesce(q.retry_at, q.next_beat_at), q.manual_at)) as waiting_since
    from evenbeat.pulse as q
    where q.group_id = job_group.id
      and q.is_parked
) as parked
where (:keys::text[] is null or job_group.key = any (:keys))
  and (:search::text is null or job_group.key ilike :search)
order by job_group.key
limit :limit
offset :offset;

-- name: count
select count(*)
from evenbeat.job_group
where :search::text is null
   or job_group.key ilike :search;

-- name: holders
-- The jobs that have a place, the longest first.
select job.uid, job.name, pulse.started_at as since, node.name as node
from evenbeat.permit
join evenbeat.pulse on pulse.id = permit.job_id
join evenbeat.job on job.id = permit.job_id
left join evenbeat.node on node.id = pulse.node_id
where permit.group_id = :group_id
order by pulse.started_at, pulse.id
limit :limit;

-- name: waiting
-- The jobs that wait for a place, in turn, and since when each is due.
select
    job.uid, job.name, least(coalesce(q.retry_at, q.next_beat_at), q.manual_at) as since,
    null::text as node
from evenbeat.pulse as q
join evenbeat.job on job.id = q.id
where q.group_id = :group_id
  and q.is_parked
order by q.turn_at, q.id
limit :limit
offset :offset;

-- name: change
update evenbeat.job_group
set max_running = :max_running,
    pace = :pace,
    burst = :burst,
    limits_at = :now,
    -- A new pace starts from now. No job waits for the old one.
    paced_until = case
        when job_group.pace is not distinct from :pace and job_group.burst = :burst
            then job_group.paced_until
    end,
    ready_at = null
where job_group.key = :key;

-- name: pause
-- Pausing a paused group changes nothing: it is paused since the first time.
update evenbeat.job_group
set paused_at = case when :paused::boolean then coalesce(job_group.paused_at, :now) end
where job_group.key = :key;

-- name: lock
-- Unparking, 1 of 2: lock the groups in which a place came free, in id order. This waits for a
-- claimer that is parking jobs: the next statement must see them.
select job_group.id
from evenbeat.job_group
where job_group.id = any (:group_ids::bigint[])
order by job_group.id
for no key update;

-- name: unpark
-- Unparking, 2 of 2, in the same transaction: unpark the first jobs in line, as many as there is room
-- for and as the pace allows. The rest would only be parked again.
with room as materialized (
    select
        job_group.id,
        case
            when job_group.paused_at is not null then 0
            when job_group.ready_at > :now then 0
            else least(
                coalesce(job_group.max_running, :at_most)
                - (select count(*) from evenbeat.permit where permit.group_id = job_group.id),
                case when job_group.pace is not null then job_group.burst + floor(
                    extract(epoch from :now - greatest(job_group.paced_until, :now))
                    / extract(epoch from job_group.pace)
                ) end
            )
        end as free
    from evenbeat.job_group
    where job_group.id = any (:group_ids::bigint[])
),
next_in_line as materialized (
    select parked.id
    from room
    cross join lateral (
        select q.id
        from evenbeat.pulse as q
        where q.group_id = room.id
          and q.is_parked
        order by q.turn_at
        limit least(greatest(room.free, 0), :at_most)::bigint
        for no key update skip locked
    ) as parked
),
ready as (
    update evenbeat.job_group
    set ready_at = null
    where job_group.id = any (:group_ids::bigint[])
      and job_group.ready_at <= :now
)
update evenbeat.pulse as p
set is_parked = false
from next_in_line
where p.id = next_in_line.id;

-- name: with_room
-- The safety net: groups with parked jobs and a free place, which a node left behind that died before
-- it unparked them, and groups whose pace allows the next start. The recursion probes the index once
-- for each group with parked jobs, not once for each parked job.
with recursive waiting as (
    (
        select q.group_id
        from evenbeat.pulse as q
        where q.is_parked
        order by q.group_id
        limit 1
    )
    union all
    select (
        select q.group_id
        from evenbeat.pulse as q
        where q.is_parked
          and q.group_id > waiting.group_id
        order by q.group_id
        limit 1
    )
    from waiting
    where waiting.group_id is not null
)
select job_group.id
from waiting
join evenbeat.job_group on job_group.id = waiting.group_id
where job_group.paused_at is null
  and (job_group.ready_at is null or job_group.ready_at <= :now)
  and (
      job_group.max_running is null
      or job_group.max_running > (
          select count(*) from evenbeat.permit where permit.group_id = job_group.id
      )
  );

-- name: next_ready_in
-- A group that is ready already waits for something else: a place, or the end of a pause.
select extract(epoch from min(job_group.ready_at) - :now)::float8
from evenbeat.job_group
where job_group.ready_at > :now;
