-- Takes away the SQL function and every dedupe key; the jobs stay.
drop function evenbeat.enqueue(text, jsonb, timestamptz, text, text, jsonb);
drop function evenbeat.new_uid(timestamptz);
drop function evenbeat.fault_of_job(text, jsonb, timestamptz, text, text, jsonb);
drop index evenbeat.pulse_dedupe;
alter table evenbeat.pulse drop column dedupe_key;
