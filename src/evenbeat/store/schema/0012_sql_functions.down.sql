-- Takes away what runs SQL functions; their jobs stay, and wait. The roles stay as well: they are
-- the server's, and other databases or grants of yours may need them.
do $$
declare
    each_one regprocedure;
begin
    -- There may be several: each version of the program has one that fits it.
    for each_one in
        select oid from pg_proc
        where pronamespace = 'evenbeat'::regnamespace
          and proname = 'settle_run'
    loop
        execute format('drop function %s', each_one);
    end loop;
end
$$;
drop function evenbeat.make_sql_login();
drop function evenbeat.admit_sql_role(name);
drop function evenbeat.make_settle_run(text, text);
drop function evenbeat.call_function(text, jsonb);
drop function evenbeat.fault_of_function(text, boolean);
drop table evenbeat.sql_login;
