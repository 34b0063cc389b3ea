-- fragment: known_lanes
open as materialized (
    select wanted.place, lane.id, lane.kind, lane.runs_on
    from unnest(:kinds::text[], :asked_labels::text[])
        with ordinality as wanted (kind, runs_on, place)
    join evenbeat.lane on lane.kind = wanted.kind
    where to_jsonb(lane.runs_on) = wanted.runs_on::jsonb
)

-- fragment: jobs_to_insert
-- The jobs, each array one column of them. Jobs whose lane is not open are left out.
-- Most jobs of a batch have the same plan and the same policy. These are parameters of their own,
-- and null in an array stands for them. An empty array is a column of nulls: unnest pads it.
-- JSON arrives and uids are returned as text, because the connection may be a caller's, whose codecs
-- we do not know.
select
    nextval('evenbeat.job_id_seq') as id, open.id as lane_id, open.kind, open.runs_on,
    n.uid, coalesce(n.state, :state::"char") as state,
    coalesce(n.next_beat_at, :next_beat_at::timestamptz) as next_beat_at, n.priority,
    n.group_id, n.group_limit, n.group_key, n.dedupe_key, n.name, n.payload, n.timetable,
    n.policy, n.labels, n.wording, n.actor, n.request_id
from unnest(
    :lanes::smallint[], :uids::uuid[], :states::"char"[], :next_beats::timestamptz[],
    :priorities::smallint[], :group_ids::bigint[], :group_limits::smallint[],
    :group_keys::text[], :dedupe_keys::text[], :names::text[], :payloads::text[],
    :timetables::text[], :policies::text[], :labels::text[], :wordings::text[],
    :actors::text[], :request_ids::text[]
) as n (
    lane, uid, state, next_beat_at, priority, group_id, group_limit, group_key, dedupe_key,
    name, payload, timetable, policy, labels, wording, actor, request_id
)
join open on open.place = coalesce(n.lane, 1)

-- fragment: insert_pulses
insert into evenbeat.pulse (
    id, lane_id, group_id, group_limit, priority, state, state_at, next_beat_at, dedupe_key
)
select
    given.id, given.lane_id, given.group_id, given.group_limit, coalesce(given.priority, 0),
    given.state, :now, given.next_beat_at, given.dedupe_key

-- fragment: write_side_rows
-- Recurring jobs wait in `unplaced` for the first process that places them. Only jobs that a person
-- adds are audited, not those that a program adds by the thousand.
-- With :wakes the commit notifies the nodes. That is sooner than a statement of its own, but commits
-- that notify wait for each other.
unplaced as (
    insert into evenbeat.unplaced (job_id)
    select kept.id
    from kept
    where kept.state = 's'
    order by kept.id
),
stored as (
    insert into evenbeat.job (
        id, uid, name, kind, payload, timetable, policy, labels, group_key, runs_on, wording,
        created_at, updated_at
    )
    overriding system value
    select
        kept.id, kept.uid, kept.name, kept.kind, kept.payload::jsonb,
        coalesce(kept.timetable::jsonb, (select :timetable::text::jsonb)),
        coalesce(kept.policy::jsonb, (select :policy::text::jsonb)),
        coalesce(kept.labels::jsonb, '{}'), kept.group_key, kept.runs_on,
        coalesce(kept.wording::jsonb, '{}'), :now, :now
    from kept
    order by kept.name, kept.id
),
audited as (
    insert into evenbeat.audit (
        at, actor, action, job_id, job_uid, job_name, request_id, before, after
    )
    select :now, kept.actor, 'add', kept.id, kept.uid, kept.name, kept.request_id, '{}', '{}'
    from kept
    where kept.actor is not null
    order by kept.id
)
select
    count(*) as count, min(kept.id) as first_id, :now as inserted_at,
    array_agg(kept.id) filter (where :returns_ids::boolean) as ids,
    array_agg(kept.uid::text) filter (where :returns_ids::boolean) as uids,
    case when :wakes::boolean and count(*) > 0 then pg_notify('evenbeat_wake', '')::text end
from kept

-- name: insert
-- Store jobs with their pulses: one or ten thousand. Names are inserted in order, so that two
-- transactions that add the same names wait for each other, and not in a circle.
with :known_lanes,
kept as materialized (
    :jobs_to_insert
),
pulses as (
    :insert_pulses
    from kept as given
),
:write_side_rows;

-- name: insert_by_key
-- The same for jobs with dedupe keys: a job whose key is held is left out. Keys are inserted in
-- order, and names after all keys.
-- The full join keeps PostgreSQL from a nested loop: a generic plan made for one job used one, and
-- took minutes for ten thousand jobs.
with :known_lanes,
given as materialized (
    :jobs_to_insert
),
pulses as (
    :insert_pulses
    from given
    order by given.dedupe_key, given.id
    on conflict (dedupe_key) where dedupe_key is not null and :holds_dedupe_key do nothing
    returning pulse.id
),
kept as materialized (
    select
        given.id, given.uid, given.state, given.name, given.kind, given.payload, given.timetable,
        given.policy, given.labels, given.group_key, given.runs_on, given.wording, given.actor,
        given.request_id
    from given
    full join pulses on pulses.id = given.id
    where coalesce(pulses.id, 0) > 0
),
:write_side_rows;

-- name: find_dedupe_holders
-- The live jobs that hold these dedupe keys. The condition is that of the unique index.
select pulse.dedupe_key, job.uid::text as uid
from evenbeat.pulse
join evenbeat.job on job.id = pulse.id
where pulse.dedupe_key = any (:keys::text[])
  and :holds_dedupe_key;

-- name: open_lanes
-- Open these lanes, each a kind and the labels that a node must carry, unless they are open.
insert into evenbeat.lane (kind, runs_on)
select wanted.kind, wanted.runs_on
from (
    select
        given.kind,
        array(
            select label.name
            from jsonb_array_elements_text(given.runs_on::jsonb)
                with ordinality as label (name, place)
            order by label.place
        ) as runs_on
    from unnest(:kinds::text[], :asked_labels::text[]) as given (kind, runs_on)
) as wanted
where not exists (
    select
    from evenbeat.lane
    where lane.kind = wanted.kind
      and lane.runs_on = wanted.runs_on
)
order by wanted.runs_on, wanted.kind
on conflict (kind, runs_on) do nothing;
