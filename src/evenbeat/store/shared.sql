-- Facts about the row of a job that statements of several files ask for. A fragment of this file can
-- be used in every file, by its name; `job` and `pulse` are the two rows of the job there.

-- fragment: is_live
-- The job is not deleted.
job.deleted_at is null

-- fragment: is_recurring
-- Its schedule names more than one instant.
not job.timetable -> 'schedule' ?| array['once', 'now', 'at']

-- fragment: is_running
-- A node has claimed it, and its run has not ended.
pulse.token is not null

-- fragment: may_beat
-- It recurs, and is neither stopped nor about to be stopped.
:is_live
and pulse.wanted is null
and pulse.state in ('p', 's', 'f')
and :is_recurring

-- fragment: is_counted
-- Its next beat comes by itself: the map of the load counts it.
:may_beat
and pulse.next_beat_at is not null

-- fragment: holds_dedupe_key
-- It may still run. The unique index `pulse_dedupe` has the same condition, and PostgreSQL finds the
-- index by this text. So the columns have no table in front.
(
    state in ('p', 's', 'z', 'd')
    or state = 'f' and coalesce(retry_at, next_beat_at, manual_at) is not null
)

-- fragment: current_state
-- Its state as people see it: a running or a waiting job keeps its state at rest in `pulse.state`.
case
    when :is_running then 'r'::"char"
    when pulse.is_parked then 'b'::"char"
    else pulse.state
end
