-- The heart: a job and its pulse, its history, and the nodes that run it.
--
-- job    what a person wrote: wide, read by key, never written by claim or completion.
-- pulse  what the engine writes: one narrow row per job, rewritten twice per run.
-- run    history: one row per run, written once, when the run closes. The run in hand IS the
--        pulse row (token is not null); the view run_all shows both.
--
-- Three rules keep a claim cheap (27,000 lifecycles a second against 11,000 with one wide row):
-- 1. No index of pulse mentions, as key or in its predicate, a column that the claim writes
--    (token, node_id, run_id, run_number, started_at, beat_at, attempt, manual_attempt, cause).
--    Then a claim is a HOT update and writes no index. Hence `state` is the state at rest, and
--    a job is running while token is not null.
-- 2. fillfactor 40 leaves room on the page for the claimed version of a row.
-- 3. Codes are "char" and keys are integers; clients see words and UUIDs.

create domain evenbeat.instant as timestamptz
    check (value between '2000-01-01T00:00:00Z' and '2200-01-01T00:00:00Z');

create table evenbeat.node (
    id integer generated always as identity primary key,
    name text not null,
    kinds text[] not null,
    labels text[] not null,
    joined_at timestamptz not null,
    seen_at timestamptz not null default statement_timestamp(),
    alive_until timestamptz not null,
    -- Since when it is given no more work.
    draining_at timestamptz,
    dead_at timestamptz,
    swept_at timestamptz
) with (fillfactor = 50);
create index node_unswept on evenbeat.node (id) where swept_at is null;
comment on table evenbeat.node is
    'One row per process; ids are never used again, so a restarted process is another node.';

create table evenbeat.lane (
    id smallint generated always as identity primary key,
    kind text collate "C" not null,
    runs_on text[] not null default '{}',
    unique (kind, runs_on)
);
comment on table evenbeat.lane is
    'A kind, and the labels a node must carry to be given such jobs: routing without any cost in the claim.';

create table evenbeat.job (
    id bigint generated always as identity primary key,
    uid uuid not null unique,
    name text collate "C" check (name <> '' and length(name) <= 200),
    kind text collate "C" not null,
    payload jsonb not null,
    timetable jsonb not null,
    policy jsonb not null,
    labels jsonb not null,
    group_key text collate "C",
    runs_on text[] not null default '{}',
    -- The words of another scheduler's client, to be given back as they were.
    wording jsonb not null default '{}',
    version integer not null default 1,
    created_at evenbeat.instant not null,
    updated_at evenbeat.instant not null,
    deleted_at evenbeat.instant
);
create unique index job_name on evenbeat.job (name) where name is not null and deleted_at is null;

-- state, at rest: p pending, s scheduled, z paused, c completed, f failed, x cancelled, d disabled.
-- A job with a token is shown as running, one that is parked as blocked.
-- cause: s schedule, u catch-up, m manual, t retry.
create table evenbeat.pulse (
    id bigint primary key,
    next_beat_at evenbeat.instant,
    retry_at evenbeat.instant,
    manual_at evenbeat.instant,
    -- When the job may be claimed; null: not at all. A paused or disabled job runs by hand only.
    due_at timestamptz generated always as (
        case
            when is_parked or is_tucked then null
            when state in ('p', 's', 'f') then least(coalesce(retry_at, next_beat_at), manual_at)
            when state in ('z', 'd') then manual_at
        end
    ) stored,
    -- Whose turn it is: ten seconds earlier for each point of priority. By way of UTC, since
    -- timestamptz - interval depends on the session's zone and cannot be generated.
    turn_at timestamptz generated always as (
        (
            least(coalesce(retry_at, next_beat_at), manual_at) at time zone 'UTC'
            - priority * interval '10 seconds'
        ) at time zone 'UTC'
    ) stored,
    state_at timestamptz not null,
    group_id bigint,
    plan_version integer not null default 1,
    def_version integer not null default 1,
    completed_count integer not null default 0,
    failed_count integer not null default 0,
    beat_count integer not null default 0,
    failure_streak integer not null default 0,
    lane_id smallint not null,
    group_limit smallint check (group_limit > 0),
    priority smallint not null default 0 check (priority between 0 and 100),
    lost_streak smallint not null default 0,
    state "char" not null check (state in ('p', 's', 'z', 'c', 'f', 'x', 'd')),
    -- While it runs: what a person asked for, obeyed when the run ends.
    wanted "char" check (wanted in ('z', 'd', 'x')),
    -- Its group is full: out of the way of claims until a permit comes free.
    is_parked boolean not null default false,
    -- It has been running for a while: out of the way of claims until it ends.
    is_tucked boolean not null default false,
    -- The run in hand, or the last one: written by the claim, in no index.
    token bigint,
    run_id bigint,
    started_at timestamptz,
    beat_at timestamptz,
    run_number integer not null default 0,
    node_id integer,
    attempt smallint not null default 0,
    manual_attempt smallint not null default 0,
    cause "char" check (cause in ('s', 'u', 'm', 't'))
) with (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.02);

create index pulse_due on evenbeat.pulse (lane_id, turn_at, due_at)
    where due_at is not null and group_id is null;
create index pulse_due_grouped on evenbeat.pulse (lane_id, turn_at, due_at)
    where due_at is not null and group_id is not null;
create index pulse_parked on evenbeat.pulse (group_id, turn_at) where is_parked;
create index pulse_wanted on evenbeat.pulse (id) where wanted is not null;

create sequence evenbeat.run_id;

-- state: c completed, f failed, x cancelled, k skipped.
create table evenbeat.run (
    id bigint primary key,
    job_id bigint not null,
    beat_at timestamptz,
    started_at timestamptz not null,
    finished_at timestamptz not null,
    duration_ms bigint,
    number integer not null,
    node_id integer,
    skipped_count integer,
    attempt smallint not null,
    state "char" not null check (state in ('c', 'f', 'x', 'k')),
    cause "char" not null check (cause in ('s', 'u', 'm', 't')),
    error_class text,
    error text,
    stack_trace text,
    result jsonb,
    items_crawled integer,
    items_indexed integer,
    skipped_until timestamptz,
    reason text
) with (autovacuum_vacuum_insert_scale_factor = 0.1);
create unique index run_job on evenbeat.run (job_id, number);

create view evenbeat.run_all as
select
    id, job_id, number, state, cause, beat_at, attempt, node_id, started_at, finished_at,
    duration_ms, error_class, error, stack_trace, result, items_crawled, items_indexed,
    skipped_count, skipped_until, reason
from evenbeat.run
union all
select
    run_id, id, run_number, 'r'::"char", cause,
    case when cause <> 'm' then beat_at end,
    case when cause = 'm' then manual_attempt else attempt end,
    node_id, started_at, null, null, null, null, null, null, null, null, null, null, null
from evenbeat.pulse
where token is not null;
