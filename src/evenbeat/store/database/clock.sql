-- name: now
select :now;

-- name: wake
-- Sent after the commit of a job, not inside its transaction: there it cost two thirds of the enqueue
-- rate. A hint need not survive a crash, so that this commit does not wait for the disk.
select set_config('synchronous_commit', 'off', true), pg_notify('evenbeat_wake', '');

-- name: create_clock_schema
create schema if not exists evenbeat_clock;

-- name: create_clock_table
create table if not exists evenbeat_clock.hand (now timestamptz not null);

-- name: create_clock_function
-- STABLE, like statement_timestamp(): the planner may use it in an index range.
create or replace function evenbeat_clock.now() returns timestamptz
language sql stable parallel safe
as 'select hand.now from evenbeat_clock.hand';

-- name: replace_clock_of_sql
-- The clock of our SQL functions. Without the schema there are none: a backup is about to be
-- restored.
do $do$
begin
    if to_regnamespace('evenbeat') is not null then
        create or replace function evenbeat.clock() returns timestamptz
        language sql volatile security definer
        as 'select hand.now from evenbeat_clock.hand';
    end if;
end
$do$;

-- name: clear_clock
delete from evenbeat_clock.hand;

-- name: set_clock
insert into evenbeat_clock.hand (now) values (:instant);
