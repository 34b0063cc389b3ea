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
