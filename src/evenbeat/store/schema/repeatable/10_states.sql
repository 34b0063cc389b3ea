-- version: 1
-- What the columns of a job say, each fact under one name: a rule about states is written here, and
-- the other files call it. The same rules are in Python's `core`; tests/laws/test_sql_states.py
-- holds the two equal. See also evenbeat.is_live, which an index is made of (0001_baseline).

-- Whether the job beats again and again, or once.
create or replace function evenbeat.is_recurring(timetable jsonb) returns boolean
language sql immutable parallel safe
return not timetable -> 'schedule' ?| array['once', 'now'];

-- The state that people see. A job runs while it has a token, and is blocked while it is parked;
-- the column `state` is the state at rest below that.
create or replace function evenbeat.shown_state(beating evenbeat.pulse) returns "char"
language sql immutable parallel safe
return case
    when (beating).token is not null then 'r'
    when (beating).is_parked then 'b'
    else (beating).state
end;

-- Whether a beat, or the retry of one, is still to come.
create or replace function evenbeat.has_next(beating evenbeat.pulse) returns boolean
language sql immutable parallel safe
return coalesce((beating).next_beat_at, (beating).retry_at) is not null;

-- Paused or disabled: the job keeps its schedule and runs nothing of it.
create or replace function evenbeat.is_aside(beating evenbeat.pulse) returns boolean
language sql immutable parallel safe
return (beating).state in ('z', 'd');

-- Whether the beat of the job is overdue. The beats of a pause are not.
create or replace function evenbeat.is_owed(beating evenbeat.pulse, at timestamptz) returns boolean
language sql immutable parallel safe
return coalesce((beating).next_beat_at <= at, false) and not evenbeat.is_aside(beating);

-- Whether the run in hand is one of the schedule's, and not one by hand.
create or replace function evenbeat.is_beat_in_hand(beating evenbeat.pulse) returns boolean
language sql immutable parallel safe
return (beating).token is not null and (beating).cause <> 'm';

-- Nothing is in hand, and nothing is to come by itself. A job that waits for a node to plan it has
-- something to come.
create or replace function evenbeat.is_over(beating evenbeat.pulse) returns boolean
language sql stable parallel safe
return (beating).token is null and (
    (beating).state in ('c', 'x')
    or not evenbeat.has_next(beating)
    and not exists (select from evenbeat.unplanned where unplanned.job_id = (beating).id)
);

-- What the column `enabled` of the SQL face shows.
create or replace function evenbeat.is_enabled(beating evenbeat.pulse) returns boolean
language sql immutable parallel safe
return coalesce((beating).wanted, (beating).state) not in ('d', 'x');

-- Whether people may disable or enable the job. One that has ended stays ended.
create or replace function evenbeat.can_be_switched(beating evenbeat.pulse) returns boolean
language sql immutable parallel safe
return (beating).state not in ('c', 'x') and (beating).wanted is distinct from 'x';

-- Where the job rests after a run by hand that succeeded. Success clears a failure; a job that is
-- paused, disabled or over stays so.
create or replace function evenbeat.state_after_success(beating evenbeat.pulse) returns "char"
language sql immutable parallel safe
return case
    when (beating).state = 'f' and (beating).next_beat_at is not null then 's'
    else (beating).state
end;

-- Whether a function did what it is for: it returned, and did not report {"success": false}.
create or replace function evenbeat.is_success(error text, result jsonb) returns boolean
language sql immutable parallel safe
return error is null and result -> 'success' is distinct from 'false'::jsonb;

-- The word of the SQL face for the cause of a run.
create or replace function evenbeat.triggered_by(cause "char") returns text
language sql immutable parallel safe
return case cause when 'm' then 'manual' when 'u' then 'catchup' else 'scheduler' end;

-- The history and the runs in hand, as one list.
create or replace view evenbeat.run_all as
select
    id, job_id, number, state, cause, beat_at, attempt, node_id, started_at, finished_at,
    duration_ms, error_class, error, stack_trace, result, items_crawled, items_indexed,
    skipped_count, skipped_until, reason
from evenbeat.run
union all
select
    run_id, id, run_number, 'r'::"char", cause,
    case when cause <> 'm' then beat_at end,
    case when cause = 'm' then manual_attempt else attempt end,
    node_id, started_at, null, null, null, null, null, null, null, null, null, null, null
from evenbeat.pulse
where token is not null;
