-- Groups: jobs that share a limit, a pace, or both.
--
-- A permit is a place in a group. The claim inserts it and whatever ends the run deletes it, in the
-- same statement, so that places cannot leak: they are counted, never remembered.

create table evenbeat.job_group (
    id bigint generated always as identity primary key,
    key text collate "C" not null unique check (key <> '' and length(key) <= 200),
    max_running integer check (max_running > 0),
    -- One start every `pace`, up to `burst` of them at once: a GCRA, whose state is one instant.
    pace interval check (pace > interval '0'),
    burst integer not null default 1 check (burst > 0),
    paced_until timestamptz,
    -- When the pace lets the next parked job in; null: nobody waits for it.
    ready_at timestamptz,
    paused_at timestamptz,
    created_at evenbeat.instant not null,
    -- Since when these limits hold: runs from before are not judged by them.
    limits_at evenbeat.instant not null
) with (fillfactor = 50);

create table evenbeat.permit (
    group_id bigint not null,
    job_id bigint not null,
    primary key (group_id, job_id)
);
