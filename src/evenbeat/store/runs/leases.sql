-- fragment: claiming_node
-- The node that claims. Its row is locked FOR SHARE, so that it cannot be declared dead meanwhile.
-- A node that is dead or draining claims nothing, and during maintenance no node does.
select node.id
from evenbeat.node
where node.id = :node_id
  and node.dead_at is null
  and node.alive_until > statement_timestamp()
  and node.draining_at is null
  and not exists (select from evenbeat.maintenance)
for share

-- fragment: lease
-- What every claim writes: the open run, and why it happens.
-- is_tucked is false already. It is set on purpose: if an UPDATE sets no column that a generated
-- column depends on, PostgreSQL parses the expressions of all generated columns for every row.
is_tucked = false,
token = :token,
node_id = :node_id,
run_id = nextval('evenbeat.run_id'),
run_number = p.run_number + 1,
started_at = :now,
cause = case
    when p.manual_at <= :now then 'm'
    when p.retry_at is not null then 't'
    when p.next_beat_at < :now - interval '1 hour' then 'u'
    else 's'
end,
beat_at = case
    when p.manual_at <= :now or p.retry_at is not null then p.beat_at
    else p.next_beat_at
end,
attempt = case
    when p.manual_at <= :now then p.attempt
    when p.retry_at is not null then p.attempt + 1
    else 1
end,
manual_attempt = case
    when p.manual_at <= :now then p.manual_attempt + 1
    else p.manual_attempt
end

-- fragment: run
-- What a claim returns of the open run. To decode an instant costs a node as much as ten numbers:
-- a beat that is equal to next_beat_at is not sent twice.
p.id, p.def_version, p.plan_version, p.token, p.run_id, p.run_number, p.cause,
nullif(p.beat_at, p.next_beat_at) as other_beat_at,
p.beat_at is not distinct from p.next_beat_at as is_next_beat,
p.attempt, p.manual_attempt, p.started_at, p.next_beat_at, p.lane_id, p.beat_count,
p.failure_streak, p.lost_streak

-- name: claim_due
-- Claim up to :places[i] due jobs of :lane_ids[i], in turn: one HOT update a job, no index written.
-- One secret :token for the whole claim; with the job's id it fences every later write.
-- Picking by ctid is safe because nothing waits here (SKIP LOCKED). A statement that waits for a
-- lock would not find the new version of the row.
-- With :since[i], turns before it are not read: while a transaction holds an old snapshot, the
-- entries of past turns cannot be vacuumed, and a claim would step over every one of them.
with alive as materialized (
    :claiming_node
)
update evenbeat.pulse as p
set :lease,
    permit_group_id = null
where p.ctid = any (array(
    select picked.tid
    from unnest(:lane_ids::smallint[], :places::integer[], :since::timestamptz[])
        as served (lane_id, places, since)
    cross join lateral (
        select q.ctid as tid
        from evenbeat.pulse as q
        where q.lane_id = served.lane_id
          and q.group_id is null
          and q.turn_at >= coalesce(served.since, '-infinity')
          and q.turn_at <= :now
          and q.due_at <= :now
          and q.token is null
        order by q.turn_at
        limit served.places
        for no key update skip locked
    ) as picked
    where exists (select from alive)
))
returning
    :run, nullif(p.turn_at, p.next_beat_at) as other_turn_at;

-- name: lock_groups
-- Claiming grouped jobs, 1 of 2: lock the groups of the first :look due jobs. A count is only right
-- in a snapshot taken after this: in one statement, a limit of 2 reached 4.
-- SKIP LOCKED: another node serves a group that it has locked, and no node waits for it.
select job_group.id
from evenbeat.job_group
where job_group.id in (
    select picked.group_id
    from unnest(:lane_ids::smallint[]) as served (lane_id)
    cross join lateral (
        select q.group_id
        from evenbeat.pulse as q
        where q.lane_id = served.lane_id
          and q.group_id is not null
          and q.turn_at <= :now
          and q.due_at <= :now
          and q.token is null
        order by q.turn_at
        limit :look
    ) as picked
)
order by job_group.id
for no key update skip locked;

-- name: claim_grouped
-- Claiming grouped jobs, 2 of 2, in the same transaction. Of the due jobs of :group_ids, those
-- that fit are claimed and get a permit. The rest are parked, which takes them out of the index
-- that claims read: half a million parked jobs cost the next claim nothing.
-- The pace is a GCRA: with T = pace and a burst of b, a start at t is allowed while
-- paced_until <= t + (b - 1) T, and moves paced_until on by T.
with alive as materialized (
    :claiming_node
),
group_room as materialized (
    select
        job_group.id,
        job_group.max_running,
        job_group.paused_at is not null as is_paused,
        (select count(*) from evenbeat.permit where permit.group_id = job_group.id) as live,
        case when job_group.pace is not null then greatest(0, job_group.burst + floor(
            extract(epoch from :now - greatest(job_group.paced_until, :now))
            / extract(epoch from job_group.pace)
        )) end as paced
    from evenbeat.job_group
    where job_group.id = any (:group_ids::bigint[])
),
due_jobs as materialized (
    select due.id
    from unnest(:lane_ids::smallint[]) as served (lane_id)
    cross join lateral (
        select q.id, q.group_id
        from evenbeat.pulse as q
        where q.lane_id = served.lane_id
          and q.group_id is not null
          and q.turn_at <= :now
          and q.due_at <= :now
          and q.token is null
        order by q.turn_at
        limit :look
    ) as due
    where due.group_id = any (:group_ids::bigint[])
      and exists (select from alive)
),
-- Locked only after the filter: jobs of groups that other nodes have locked stay free for them.
locked_jobs as materialized (
    select q.id, q.group_id, q.turn_at, q.group_limit
    from due_jobs
    join evenbeat.pulse as q on q.id = due_jobs.id
    where q.due_at <= :now
      and q.token is null
    order by q.id
    for no key update of q skip locked
),
ranked_jobs as materialized (
    select
        locked_jobs.id, locked_jobs.group_id, locked_jobs.turn_at, locked_jobs.group_limit,
        row_number() over (
            partition by locked_jobs.group_id order by locked_jobs.turn_at, locked_jobs.id
        ) as place
    from locked_jobs
),
checked_jobs as materialized (
    select
        ranked_jobs.id, ranked_jobs.group_id, ranked_jobs.turn_at,
        not group_room.is_paused
        and coalesce(
            ranked_jobs.place + group_room.live
            <= least(group_room.max_running, ranked_jobs.group_limit),
            true
        )
        and (group_room.paced is null or ranked_jobs.place <= group_room.paced) as fits
    from ranked_jobs
    join group_room on group_room.id = ranked_jobs.group_id
),
ordered_jobs as materialized (
    select
        checked_jobs.id, checked_jobs.group_id, checked_jobs.fits,
        row_number() over (
            partition by checked_jobs.fits order by checked_jobs.turn_at, checked_jobs.id
        ) as turn
    from checked_jobs
),
parked as (
    update evenbeat.pulse as p
    set is_parked = true
    from ordered_jobs
    where p.id = ordered_jobs.id
      and not ordered_jobs.fits
),
paced as (
    update evenbeat.job_group
    set paced_until = greatest(job_group.paced_until, :now) + job_group.pace * counted.admitted,
        ready_at = case
            when counted.seen > counted.fitting or exists (
                select from evenbeat.pulse as q where q.group_id = job_group.id and q.is_parked
            ) then greatest(
                :now,
                greatest(job_group.paced_until, :now)
                + job_group.pace * (counted.admitted - job_group.burst + 1)
            )
        end
    from (
        select
            ordered_jobs.group_id,
            count(*) as seen,
            count(*) filter (where ordered_jobs.fits) as fitting,
            count(*) filter (where ordered_jobs.fits and ordered_jobs.turn <= :places) as admitted
        from ordered_jobs
        group by ordered_jobs.group_id
    ) as counted
    where job_group.id = counted.group_id
      and job_group.pace is not null
),
claimed as (
    update evenbeat.pulse as p
    set :lease,
        permit_group_id = p.group_id
    from ordered_jobs
    where p.id = ordered_jobs.id
      and ordered_jobs.fits
      and ordered_jobs.turn <= :places
    returning
        :run, p.group_id
),
permitted as (
    insert into evenbeat.permit (group_id, job_id)
    select claimed.group_id, claimed.id
    from claimed
)
select
    claimed.id, claimed.def_version, claimed.plan_version, claimed.token, claimed.run_id,
    claimed.run_number, claimed.cause, claimed.other_beat_at, claimed.is_next_beat,
    claimed.attempt, claimed.manual_attempt, claimed.started_at, claimed.next_beat_at,
    claimed.lane_id, claimed.beat_count, claimed.failure_streak, claimed.lost_streak
from claimed;

-- name: node_runs
-- The runs that a node holds, by what the database says, with the columns of a claim.
select
    :run
from evenbeat.pulse as p
where p.node_id = :node_id
  and p.token is not null
order by p.id;

-- name: leased
-- The open runs of these jobs, on whatever node, with the columns of a claim.
select
    :run
from evenbeat.pulse as p
where p.id = any (:job_ids::bigint[])
  and p.token is not null
order by p.id;

-- name: next_due
-- How long until a job is due, as durations: a node never compares instants of its own clock.
-- The first in turn need not be the first that is due: priority brings a turn forward by up to
-- 1000 seconds, and never a due instant. So the second part reads every turn from which a due
-- instant within :horizon can come. The limit skips that part where a job is due already.
-- During maintenance nothing is due: else the claimer would ask again at once, in a busy loop.
-- :since as in claim_due.
select
    extract(epoch from min(nearest.ungrouped_at) - :now)::float8 as ungrouped_in,
    extract(epoch from min(nearest.grouped_at) - :now)::float8 as grouped_in,
    (select count(*) from evenbeat.lane) as lane_count
from unnest(:lane_ids::smallint[], :since::timestamptz[]) as served (lane_id, since)
cross join lateral (
    select
        (
            select either.due_at
            from (
                (
                    select q.due_at
                    from evenbeat.pulse as q
                    where q.lane_id = served.lane_id
                      and q.group_id is null
                      and q.turn_at >= coalesce(served.since, '-infinity')
                      and q.turn_at <= :now
                      and q.due_at <= :now
                      and q.token is null
                    order by q.turn_at
                    limit 1
                )
                union all
                select min(q.due_at)
                from evenbeat.pulse as q
                where q.lane_id = served.lane_id
                  and q.group_id is null
                  and q.turn_at > greatest(served.since, :now - interval '1000 seconds')
                  and q.turn_at <= :now + :horizon::interval
                  and q.due_at > :now
                  and q.due_at <= :now + :horizon::interval
                  and q.token is null
            ) as either
            limit 1
        ) as ungrouped_at,
        (
            select either.due_at
            from (
                (
                    select q.due_at
                    from evenbeat.pulse as q
                    where q.lane_id = served.lane_id
                      and q.group_id is not null
                      and q.turn_at <= :now
                      and q.due_at <= :now
                      and q.token is null
                    order by q.turn_at
                    limit 1
                )
                union all
                select min(q.due_at)
                from evenbeat.pulse as q
                where q.lane_id = served.lane_id
                  and q.group_id is not null
                  and q.turn_at > :now - interval '1000 seconds'
                  and q.turn_at <= :now + :horizon::interval
                  and q.due_at > :now
                  and q.due_at <= :now + :horizon::interval
                  and q.token is null
            ) as either
            limit 1
        ) as grouped_at
) as nearest
where not exists (select from evenbeat.maintenance);

-- name: tuck
-- Take long runs out of the due index, so that claims need not step over them: a claim of a
-- hundred took 14 ms behind 40,000 running jobs, and 2 ms once they were tucked away.
update evenbeat.pulse as p
set is_tucked = true
from unnest(:job_ids::bigint[], :tokens::bigint[]) as held (job_id, token)
where p.id = held.job_id
  and p.token = held.token
  and not p.is_tucked;

-- name: unwanted
-- The runs of this node that a person wants stopped. The index holds only such jobs.
select p.run_id
from evenbeat.pulse as p
where p.wanted = 'x'
  and p.node_id = :node_id
  and p.token is not null;

-- name: lost_leases
-- The runs of these whose lease is gone: a person or another node has released them.
select held.run_id
from unnest(:job_ids::bigint[], :tokens::bigint[], :run_ids::bigint[])
    as held (job_id, token, run_id)
where not exists (
    select from evenbeat.pulse as p where p.id = held.job_id and p.token = held.token
);
