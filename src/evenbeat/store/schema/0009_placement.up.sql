-- Balancing: what the map of the coming week holds of every recurring job, and how it changes.
--
-- The rhythm itself is in job.timetable and pulse.next_beat_at. Here is what is counted of it, so
-- that any number of processes keep the same map: the rows of placement are the map, and
-- load_delta tells, in the order of commits, how it became what it is.

create table evenbeat.placement (
    job_id bigint primary key,
    -- 0: the schedule names its instants, and phase_s is how long after them the job beats.
    interval_s bigint not null check (interval_s >= 0),
    phase_s bigint not null check (phase_s >= 0),
    cost_s integer not null check (cost_s > 0),
    -- What a plain interval leaves out: windows, instants, wishes.
    timetable jsonb,
    -- Of the last change of phase; null: it beats where it was planned.
    placed_at evenbeat.instant,
    plan_version integer,
    run_number integer
);

-- One row, locked by whoever writes the map. An advisory lock could be held by anybody who is
-- connected, SQL functions included; to lock a row takes a right to its table.
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

-- Jobs whose row in placement may not be what it should be. Who adds, edits, resumes or stops a
-- recurring job says so here, in the same transaction: nothing else is asked of a foreign one.
create table evenbeat.unplaced (
    job_id bigint primary key,
    -- With so many beats behind it the job has not beaten since, and may be put anywhere; -1: it
    -- stays where it is.
    beat_count integer not null default 0
);
