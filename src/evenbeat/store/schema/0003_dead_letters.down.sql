-- Takes away every dead letter; the runs stay in the history.
drop table evenbeat.dead_letter;
