-- Control: what people did to jobs, the definitions they replaced, and the maintenance switch.

-- Rows are only ever added, in the transaction of the change itself.
create table evenbeat.audit (
    id bigint generated always as identity primary key,
    at evenbeat.instant not null,
    actor text not null,
    action text not null,
    -- Null: the whole of Evenbeat was meant, not one job.
    job_id bigint,
    job_uid uuid,
    job_name text,
    request_id text,
    before jsonb not null,
    after jsonb not null
);
create index audit_job on evenbeat.audit (job_id, id) where job_id is not null;
create index audit_actor on evenbeat.audit (actor, id);

-- A definition as it was until an edit replaced it; the one in force is the job's own row.
create table evenbeat.job_version (
    job_id bigint not null,
    version integer not null,
    definition jsonb not null,
    replaced_at evenbeat.instant not null,
    replaced_by text not null,
    primary key (job_id, version)
);

-- At most one row, and none while everything runs as usual: what every claim asks.
create table evenbeat.maintenance (
    is_on boolean primary key default true check (is_on),
    since evenbeat.instant not null,
    reason text not null,
    actor text not null
);

-- The group in which the run in hand has its place, written by the claim: an edit may have put
-- the job into another group since.
alter table evenbeat.pulse add column permit_group_id bigint;
