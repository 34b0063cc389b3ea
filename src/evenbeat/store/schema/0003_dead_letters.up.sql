-- Dead letters: beats that ran out of attempts, for people to look at.

create table evenbeat.dead_letter (
    -- The run that failed last: a run is buried once, ever.
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
    acknowledged_by text
);
create index dead_letter_open on evenbeat.dead_letter (created_at) where acknowledged_at is null;
create index dead_letter_job on evenbeat.dead_letter (job_id);
