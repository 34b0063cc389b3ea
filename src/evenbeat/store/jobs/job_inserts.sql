-- fragment: known_lanes
open as materialized (
    select wanted.place, lane.id, lane.kind, lane.runs_on
    from unnest(:kinds::text[], :asked_labels::text[])
        with ordinality as wanted (kind, runs_on, place)
    join evenbeat.lane on lane.kind = wanted.kind
    where to_jsonb(lane.runs_on) = wanted.runs_on::jsonb
)

-- fragment: jobs_to_insert
-- The jobs, each array one of their columns; those are left out whose lane is not open.
-- Most jobs of a batch have a plan and a policy in common: they come once, and null in the arrays
-- stands for them.
-- Arrays may come empty: unnest pads with nulls. JSON comes, and uids go, as text: it may be on a
-- connection that is not ours, with codecs that we do not know.
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
-- Recurring ones are to be placed by whoever comes first. What people add is audited; a program
-- that adds jobs by the thousand is not a person.
-- With :wakes the nodes hear of it at its commit: sooner than by a statement of its own, but
-- commits that notify go one after the other.
unplaced as (
    insert into evenbeat.unplaced (job_id)
    select kept.id
    from kept
    where kept.state = 's'
    order by kept.id
),
born as (
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
noted as (
    insert into evenbeat.audit (
        at, actor, action, job_id, job_uid, job_name, request_id, before, after
    )
    select :now, kept.actor, 'add', kept.id, kept.uid, kept.name, kept.request_id, '{}', '{}'
    from kept
    where kept.actor is not null
    order by kept.id
)
select
    count(*) as count, min(kept.id) as first_id, :now as born_at,
    array_agg(kept.id) filter (where :tells::boolean) as ids,
    array_agg(kept.uid::text) filter (where :tells::boolean) as uids,
    case when :wakes::boolean and count(*) > 0 then pg_notify('evenbeat_wake', '')::text end
from kept

-- name: insert
-- Jobs and their pulses are born together: one or ten thousand. Names are taken in their order, so
-- that two who add the same jobs wait for each other and not in a circle.
with :known_lanes,
kept as materialized (
    :jobs_to_insert
),
beating as (
    :insert_pulses
    from kept as given
),
:write_side_rows;

-- name: insert_by_key
-- The same where some have dedupe keys: nothing is written for a key that a live job holds.
-- Keys are taken in their order, and names after all keys. Hence also the full join: it cannot be
-- a nested loop, which a plan made for one job would be, and which took minutes for ten thousand.
with :known_lanes,
given as materialized (
    :jobs_to_insert
),
beating as (
    :insert_pulses
    from given
    order by given.dedupe_key, given.id
    on conflict (dedupe_key) where dedupe_key is not null
        and evenbeat.is_live(state, retry_at, next_beat_at, manual_at) do nothing
    returning pulse.id
),
kept as materialized (
    select
        given.id, given.uid, given.state, given.name, given.kind, given.payload, given.timetable,
        given.policy, given.labels, given.group_key, given.runs_on, given.wording, given.actor,
        given.request_id
    from given
    full join beating on beating.id = given.id
    where coalesce(beating.id, 0) > 0
),
:write_side_rows;

-- name: holders
-- The live jobs that hold these dedupe keys.
select pulse.dedupe_key, job.uid::text as uid
from evenbeat.pulse
join evenbeat.job on job.id = pulse.id
where pulse.dedupe_key = any (:keys::text[])
  and evenbeat.is_live(pulse.state, pulse.retry_at, pulse.next_beat_at, pulse.manual_at);

-- name: is_backend_gone
-- Whether nobody works on what a lost connection asked for. Asked before looking for what it may
-- have stored: in the other order it could store it in between.
select not exists (select from pg_stat_activity where pg_stat_activity.pid = :pid);

-- name: stored
select job.uid
from evenbeat.job
where job.uid = any (:uids::uuid[]);
