drop table evenbeat.unplaced;
drop table evenbeat.load_delta;
drop table evenbeat.placing;
drop table evenbeat.placement;
