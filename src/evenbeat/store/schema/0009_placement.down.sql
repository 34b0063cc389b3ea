drop table evenbeat.unplaced;
drop table evenbeat.load_delta;
drop table evenbeat.placement;
