-- Facts about the row of a job that statements of several files ask for. A fragment of this file can
-- be used in every file, by its name; `job` and `pulse` are the two rows of the job there.

-- fragment: is_not_deleted
-- People can see and change the job.
job.deleted_at is null

-- fragment: is_recurring
-- Its schedule names more than one instant.
evenbeat.is_recurring(job.timetable)

-- fragment: is_running
-- A node has claimed it, and its run has not ended.
pulse.token is not null

-- fragment: may_beat
-- It recurs, and is neither stopped nor about to be stopped.
:is_not_deleted
and pulse.wanted is null
and pulse.state in ('p', 's', 'f')
and :is_recurring

-- fragment: is_counted
-- Its next beat comes by itself: the map of the load counts it.
:may_beat
and pulse.next_beat_at is not null

-- fragment: holds_dedupe_key
-- The job may still run. The unique index `pulse_dedupe` has the same condition, and PostgreSQL finds
-- the index by this text. So the columns have no table in front.
evenbeat.is_live(state, retry_at, next_beat_at, manual_at)

-- fragment: current_state
-- The state as people see it: a running or a parked job keeps its state at rest in `pulse.state`.
evenbeat.shown_state(pulse)
