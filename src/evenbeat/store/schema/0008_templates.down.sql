drop table evenbeat.template;
