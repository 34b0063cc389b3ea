-- Takes away every job and all history with them.
drop view evenbeat.run_all;
drop table evenbeat.run;
drop sequence evenbeat.run_id;
drop table evenbeat.pulse;
drop table evenbeat.job;
drop table evenbeat.lane;
drop table evenbeat.node;
drop domain evenbeat.instant;
