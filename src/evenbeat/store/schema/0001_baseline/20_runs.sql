-- Runs: the history, the permits of runs in hand, log lines, dead letters, and counts.

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
) with (
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_analyze_scale_factor = 0.05
);
create unique index run_job on evenbeat.run (job_id, number);

-- A permit is a place in a group. The claim inserts it. The statement that ends the run deletes it.
-- So permits cannot leak: they are counted, and no counter is kept.
create table evenbeat.permit (
    group_id bigint not null,
    job_id bigint not null,
    primary key (group_id, job_id)
) with (autovacuum_vacuum_cost_delay = 0);

create table evenbeat.run_log (
    run_id bigint not null,
    id bigint generated always as identity,
    at timestamptz not null,
    level text not null check (level in ('debug', 'info', 'warning', 'error')),
    message text not null,
    primary key (run_id, id)
) with (
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_insert_scale_factor = 0.1
);
comment on table evenbeat.run_log is 'Log lines of runs, in the order of their ids; they go with their run.';

-- Dead letters: beats that ran out of attempts. People group them by what went wrong, acknowledge,
-- requeue or discard them.
create table evenbeat.dead_letter (
    -- The run that failed last: a run becomes a dead letter once, ever.
    id bigint primary key,
    job_id bigint not null,
    job_name text,
    kind text not null,
    payload jsonb not null,
    beat_at timestamptz,
    attempts smallint not null,
    error_class text,
    error text,
    created_at evenbeat.instant not null,
    acknowledged_at evenbeat.instant,
    acknowledged_by text,
    -- A letter outlives its job.
    job_uid uuid,
    group_key text collate "C",
    -- What else the job said, without its timetable: a requeued letter runs once.
    terms jsonb not null default '{}',
    -- The error without what differs from run to run.
    signature text collate "C" not null default '',
    note text,
    owner text,
    -- r requeued, d discarded; null: open, acknowledged or not.
    ending "char" check (ending in ('r', 'd')),
    ended_at evenbeat.instant,
    ended_by text,
    -- The job that runs it again: its own, or one made for that.
    requeued_as uuid,
    constraint acknowledged_by_somebody
        check ((acknowledged_at is null) = (acknowledged_by is null)),
    constraint ended_by_somebody
        check ((ending is null) = (ended_at is null) and (ending is null) = (ended_by is null)),
    constraint seen_before_it_ended check (ending is null or acknowledged_at is not null),
    constraint requeued_as_a_job
        check ((ending is not distinct from 'r') = (requeued_as is not null))
);
create index dead_letter_open on evenbeat.dead_letter (created_at) where acknowledged_at is null;
create index dead_letter_job on evenbeat.dead_letter (job_id);
create index dead_letter_name on evenbeat.dead_letter (job_name) where job_name is not null;
create index dead_letter_seen on evenbeat.dead_letter (acknowledged_at)
    where acknowledged_at is not null;

-- The sums of runs by day of their start (UTC). Each run is counted once, and the sums stay when
-- retention removes the runs. One row per recurring job; one-off jobs, and recurring ones that are
-- removed, share job 0.
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
