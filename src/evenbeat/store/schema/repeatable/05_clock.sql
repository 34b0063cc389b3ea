-- version: 1
-- The clock of the SQL face. Tests put a function in its place that reads a clock they can set.

-- Not the time of the statement: a function of the face may wait for a lock first.
create or replace function evenbeat.clock() returns timestamptz
language sql volatile
as 'select clock_timestamp()';
