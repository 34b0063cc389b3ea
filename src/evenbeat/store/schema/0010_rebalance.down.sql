drop table evenbeat.score;
drop table evenbeat.rebalance_skip;
drop table evenbeat.rebalance_move;
drop table evenbeat.rebalance_plan;
