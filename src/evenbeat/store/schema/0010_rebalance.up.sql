-- Rebalancing: what was planned, what was done of it, and how even the load has been.

-- A plan as it was shown. Nothing in it changes but what became of it.
create table evenbeat.rebalance_plan (
    id uuid primary key,
    made_at evenbeat.instant not null,
    made_by text not null,
    -- Null: over all jobs.
    group_key text collate "C",
    max_moves integer,
    -- The newest change of the load that it knows of: with a newer one, it is not what was shown.
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
