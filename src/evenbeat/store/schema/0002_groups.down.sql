-- Takes away every group; their jobs stay, without a limit.
update evenbeat.pulse set group_id = null, is_parked = false where group_id is not null;
drop table evenbeat.permit;
drop table evenbeat.job_group;
