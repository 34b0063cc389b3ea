-- Takes away what people said of dead letters; the letters stay.
comment on column evenbeat.chore.goal is null;
drop index evenbeat.dead_letter_seen;
drop index evenbeat.dead_letter_name;
alter table evenbeat.dead_letter
    drop constraint acknowledged_by_somebody,
    drop column requeued_as,
    drop column ended_by,
    drop column ended_at,
    drop column ending,
    drop column owner,
    drop column note,
    drop column signature,
    drop column terms,
    drop column group_key,
    drop column job_uid;
