-- Housekeeping: what is kept, what is counted before it goes, and who looked after it last.

-- One row per chore. Whoever takes the row (SKIP LOCKED) does the next piece of it: one janitor at
-- a time, and a node that dies on the way blocks nobody.
create table evenbeat.chore (
    name text collate "C" primary key,
    -- Done up to this key; the next piece begins behind it.
    cursor bigint not null default 0,
    -- Counting only: how far it may go, once every transaction older than this one has ended.
    goal bigint not null default 0,
    goal_xid xid8,
    -- Pauses are about processes: by the database's own clock.
    next_at timestamptz not null,
    -- When it last began with the first key.
    swept_at timestamptz,
    round_count bigint not null default 0,
    round_ms double precision not null default 0,
    last_at timestamptz,
    last_count bigint not null default 0,
    last_ms double precision not null default 0,
    total_count bigint not null default 0
) with (fillfactor = 50);

-- What runs came to, by day of their start (UTC): counted once each, and kept when they are gone.
-- A row per recurring job; one-off jobs, and recurring ones that are gone, share job 0.
create table evenbeat.run_day (
    day date not null,
    kind text collate "C" not null,
    group_key text collate "C" not null,
    job_id bigint not null,
    completed bigint not null,
    -- Those lost with their node included.
    failed bigint not null,
    lost bigint not null,
    cancelled bigint not null,
    -- Beats, not rows.
    skipped bigint not null,
    retried bigint not null,
    -- Of completed runs.
    duration_ms bigint not null,
    longest_ms bigint not null,
    items_crawled bigint not null,
    items_indexed bigint not null,
    primary key (day, kind, group_key, job_id)
) with (fillfactor = 80);
create index run_day_job on evenbeat.run_day (job_id, day) where job_id > 0;

-- The same since the beginning, by kind: these only ever grow.
create table evenbeat.run_total (
    kind text collate "C" primary key,
    completed bigint not null,
    failed bigint not null,
    lost bigint not null,
    cancelled bigint not null,
    skipped bigint not null
) with (fillfactor = 50);

-- Runs that were under way when counting passed them: counted by themselves when they close.
create table evenbeat.late_run (
    id bigint primary key
);

create table evenbeat.run_log (
    run_id bigint not null,
    id bigint generated always as identity,
    at timestamptz not null,
    level text not null check (level in ('debug', 'info', 'warning', 'error')),
    message text not null,
    primary key (run_id, id)
);
comment on table evenbeat.run_log is 'Log lines of runs, in the order of their ids; they go with their run.';

-- Figures of the whole cluster, taken by one node for all: reading them costs nothing.
create table evenbeat.figure (
    name text collate "C" primary key,
    taken_at timestamptz not null,
    value jsonb not null
) with (fillfactor = 50);

-- Those few that are deleted and not yet removed; nothing hot writes to job.
create index job_deleted on evenbeat.job (id) where deleted_at is not null;

-- What store/upkeep.py wants, with the reasons; a test compares the two.
alter table evenbeat.pulse set (
    fillfactor = 40,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.05
);
alter table evenbeat.run set (
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_analyze_scale_factor = 0.05
);
alter table evenbeat.run_log set (
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_insert_scale_factor = 0.1
);
alter table evenbeat.permit set (autovacuum_vacuum_cost_delay = 0);
