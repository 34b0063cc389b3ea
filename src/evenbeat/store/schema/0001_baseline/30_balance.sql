-- Balance: the map of the coming week's load, how it changes, and what was rebalanced.
--
-- The rhythm itself is in job.timetable and pulse.next_beat_at. Here is what the map counts of it,
-- so that any number of processes keep the same map: the rows of placement are the map, and
-- load_delta tells, in the order of commits, how it became what it is.

create table evenbeat.placement (
    job_id bigint primary key,
    -- 0: the schedule names its instants, and phase_s is how long after them the job beats.
    interval_s bigint not null check (interval_s >= 0),
    phase_s bigint not null check (phase_s >= 0),
    cost_s integer not null check (cost_s > 0),
    -- What a plain interval leaves out: windows, instants, wishes.
    timetable jsonb,
    -- Of the last change of phase; null: the job beats where it was planned.
    placed_at evenbeat.instant,
    plan_version integer,
    run_number integer
);

-- One row: each transaction that writes the map locks it. It is no advisory lock, since every
-- connected role may take those, SQL functions included; to lock a row takes a right to its table.
create table evenbeat.placing (
    is_it boolean primary key default true check (is_it)
);
insert into evenbeat.placing default values;

create table evenbeat.load_delta (
    seq bigint generated always as identity primary key,
    job_id bigint not null,
    -- 1: came, -1: went.
    jobs smallint not null check (jobs in (1, -1)),
    interval_s bigint not null,
    phase_s bigint not null,
    cost_s integer not null,
    timetable jsonb
);
comment on table evenbeat.load_delta is
    'Written under the placement lock alone, so that the order of seq is the order of commits.';

-- Jobs whose row in placement may be out of date. A transaction that adds, edits, resumes or stops a
-- recurring job writes this row too, and leaves the placing to a node.
create table evenbeat.unplaced (
    job_id bigint primary key,
    -- While the job has this number of beats behind it, it has not beaten since, and may be put
    -- anywhere; -1: it stays where it is.
    beat_count integer not null default 0
);

-- A plan as it was shown. Nothing in it changes but whether it was applied or undone.
create table evenbeat.rebalance_plan (
    id uuid primary key,
    made_at evenbeat.instant not null,
    made_by text not null,
    -- Null: over all jobs.
    group_key text collate "C",
    max_moves integer,
    -- The newest change of the load that the plan knows of: after a newer one it is out of date.
    seen bigint not null,
    job_count integer not null,
    before jsonb not null,
    after jsonb not null,
    attainable_score double precision not null,
    suggestion text,
    move_count integer not null,
    skip_count integer not null,
    -- The plan that this one takes back.
    undoes uuid,
    -- Counts the rebalances since the beginning; null: not applied, or an undo.
    number bigint unique,
    applied_at evenbeat.instant,
    applied_by text,
    undone_at evenbeat.instant,
    undone_by text,
    check ((applied_at is null) = (applied_by is null)),
    check ((undone_at is null) = (undone_by is null)),
    check (undone_at is null or applied_at is not null),
    check (number is null or (applied_at is not null and undoes is null))
);
create index rebalance_plan_made on evenbeat.rebalance_plan (made_at, id);

-- With the job's public id, which outlives the job.
create table evenbeat.rebalance_move (
    plan_id uuid not null references evenbeat.rebalance_plan on delete cascade,
    job_id bigint not null,
    job_uid uuid not null,
    old_phase_s integer not null,
    new_phase_s integer not null,
    old_next_at evenbeat.instant not null,
    new_next_at evenbeat.instant not null,
    effective_from evenbeat.instant not null,
    primary key (plan_id, job_id)
);

create table evenbeat.rebalance_skip (
    plan_id uuid not null references evenbeat.rebalance_plan on delete cascade,
    job_id bigint not null,
    job_uid uuid not null,
    reason text not null,
    primary key (plan_id, job_id)
);

-- How even the coming day was, every few minutes.
create table evenbeat.score (
    at evenbeat.instant primary key,
    score double precision not null check (score between 0 and 1),
    minute_score double precision not null check (minute_score between 0 and 1),
    peak integer not null,
    peak_over_ideal double precision not null,
    job_count integer not null
);
