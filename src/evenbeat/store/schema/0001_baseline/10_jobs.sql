-- Jobs: what a person wrote, what the engine writes of it, and what jobs share.
--
-- job    what a person wrote: wide, read by key, never written by claim or completion.
-- pulse  what the engine writes: one narrow row per job, rewritten twice per run.
-- run    history (20_runs.sql): one row per run, written once, when the run closes. The run in hand
--        IS the pulse row (token is not null); the view run_all shows both.
--
-- Three rules keep a claim cheap (27,000 lifecycles a second against 11,000 with one wide row):
-- 1. No index of pulse mentions, as key or in its predicate, a column that the claim writes
--    (token, node_id, run_id, run_number, started_at, beat_at, attempt, manual_attempt, cause,
--    permit_group_id). Then a claim is a HOT update and writes no index. Hence `state` is the state
--    at rest, and a job is running while token is not null.
-- 2. fillfactor 40 leaves room on the page for the claimed version of a row.
-- 3. Codes are "char" and keys are integers; clients see words and UUIDs.

create domain evenbeat.instant as timestamptz
    check (value between '2000-01-01T00:00:00Z' and '2200-01-01T00:00:00Z');

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
    -- The words that a client of another scheduler's API sent; that API answers with the same words.
    wording jsonb not null default '{}',
    version integer not null default 1,
    created_at evenbeat.instant not null,
    updated_at evenbeat.instant not null,
    deleted_at evenbeat.instant
);
create unique index job_name on evenbeat.job (name) where name is not null and deleted_at is null;
-- The few jobs that are deleted and not yet removed. Neither claim nor completion writes to job.
create index job_deleted on evenbeat.job (id) where deleted_at is not null;

-- A definition as it was until an edit replaced it; the one in force is the job's own row.
create table evenbeat.job_version (
    job_id bigint not null,
    version integer not null,
    definition jsonb not null,
    replaced_at evenbeat.instant not null,
    replaced_by text not null,
    primary key (job_id, version)
);

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
    -- The order of claims: ten seconds earlier for each point of priority. By way of UTC, since
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
    -- While the job runs: the state that a person asked for. The end of the run obeys it.
    wanted "char" check (wanted in ('z', 'd', 'x')),
    -- Its group is full: claims pass over the job until a permit comes free.
    is_parked boolean not null default false,
    -- It has been running for a while: claims do not look at the job until it ends.
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
    cause "char" check (cause in ('s', 'u', 'm', 't')),
    -- The group in which the run in hand holds its permit, written by the claim: an edit may have
    -- put the job into another group since.
    permit_group_id bigint,
    -- Unique among live jobs: see the index pulse_dedupe.
    dedupe_key text collate "C" check (dedupe_key <> '' and length(dedupe_key) <= 200)
) with (
    -- store/upkeep.py wants these settings and says why; a test compares the two.
    fillfactor = 40,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.05
);

create index pulse_due on evenbeat.pulse (lane_id, turn_at, due_at)
    where due_at is not null and group_id is null;
create index pulse_due_grouped on evenbeat.pulse (lane_id, turn_at, due_at)
    where due_at is not null and group_id is not null;
create index pulse_parked on evenbeat.pulse (group_id, turn_at) where is_parked;
create index pulse_wanted on evenbeat.pulse (id) where wanted is not null;
-- A live job may run by itself, or a person may take it up again. It holds its dedupe key. This is
-- part of the migration and no repeatable file, since an index is made of it: with another text the
-- index would have to be made anew.
create function evenbeat.is_live(
    state "char", retry_at timestamptz, next_beat_at timestamptz, manual_at timestamptz
) returns boolean
language sql immutable parallel safe
return state in ('p', 's', 'z', 'd')
    or state = 'f' and coalesce(retry_at, next_beat_at, manual_at) is not null;

-- A dedupe key is unique among live jobs, and the index alone sees to it: a statement that ends a
-- job takes it out of the index without knowing of keys. Only people bring an ended job back to
-- life, completion never does: so no key can stand in the way of a completion.
-- The claim writes none of the columns named here. A job without a key costs one look at a null.
create unique index pulse_dedupe on evenbeat.pulse (dedupe_key)
    where dedupe_key is not null
      and evenbeat.is_live(state, retry_at, next_beat_at, manual_at);

-- Jobs that wait for a node to work out their next beat.
create table evenbeat.unplanned (
    job_id bigint primary key,
    -- From when on the job is owed beats, however late a node plans it.
    since evenbeat.instant not null,
    -- The beat of an old timetable that was due and not begun: it is still run.
    owed_at evenbeat.instant,
    -- Beats of the old timetable after this one are not run; the history names them as skipped.
    passed_from evenbeat.instant,
    old_timetable jsonb,
    -- Why: z the job was paused, d it was disabled; null: the timetable was replaced.
    passed_in "char" check (passed_in in ('z', 'd'))
);

-- Groups: jobs that share a limit, a pace, or both.
create table evenbeat.job_group (
    id bigint generated always as identity primary key,
    key text collate "C" not null unique check (key <> '' and length(key) <= 200),
    max_running integer check (max_running > 0),
    -- One start every `pace`, up to `burst` of them at once: a GCRA, whose state is one instant.
    pace interval check (pace > interval '0'),
    burst integer not null default 1 check (burst > 0),
    paced_until timestamptz,
    -- When the pace lets the next parked job in; null: no job waits for it.
    ready_at timestamptz,
    paused_at timestamptz,
    created_at evenbeat.instant not null,
    -- Since when these limits hold: runs from before are not judged by them.
    limits_at evenbeat.instant not null
) with (fillfactor = 50);

-- Templates: jobs with blanks, by name.
create table evenbeat.template (
    name text collate "C" primary key,
    description text,
    job jsonb not null,
    parameters jsonb not null,
    version integer not null default 1,
    created_at evenbeat.instant not null,
    updated_at evenbeat.instant not null
);
