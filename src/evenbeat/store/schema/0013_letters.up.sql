-- Dead letters in the hands of people: grouped by what went wrong, acknowledged, requeued, discarded.

alter table evenbeat.dead_letter
    -- A letter outlives its job.
    add column job_uid uuid,
    add column group_key text collate "C",
    -- What else the job said, without its timetable: a letter is requeued once.
    add column terms jsonb not null default '{}',
    -- The error without what differs from run to run.
    add column signature text collate "C" not null default '',
    add column note text,
    add column owner text,
    -- r requeued, d discarded; null: still to be seen to, be it acknowledged or not.
    add column ending "char" check (ending in ('r', 'd')),
    add column ended_at evenbeat.instant,
    add column ended_by text,
    -- The job that runs it again: its own, or one made for that.
    add column requeued_as uuid,
    add constraint acknowledged_by_somebody
        check ((acknowledged_at is null) = (acknowledged_by is null)),
    add constraint ended_by_somebody
        check ((ending is null) = (ended_at is null) and (ending is null) = (ended_by is null)),
    add constraint seen_before_it_ended check (ending is null or acknowledged_at is not null),
    add constraint requeued_as_a_job
        check ((ending is not distinct from 'r') = (requeued_as is not null));

create index dead_letter_name on evenbeat.dead_letter (job_name) where job_name is not null;
create index dead_letter_seen on evenbeat.dead_letter (acknowledged_at)
    where acknowledged_at is not null;

comment on column evenbeat.chore.goal is
    'Of counting, how far it may go; of letters, the newest run whose letter has been removed.';
