-- Facts that statements of several files ask for, each under one name. A fragment of this file can be
-- used in every file of the store. `job` and `pulse` are the two rows of a job there, `node` is the
-- row of a node. The functions evenbeat.is_… are those of the SQL interface; tests hold them equal to
-- `core`.

-- fragment: is_not_deleted
-- People can see and change the job.
job.deleted_at is null

-- fragment: is_recurring
-- The schedule names more than one instant.
evenbeat.is_recurring(job.timetable)

-- fragment: follows_schedule
-- The job runs by its schedule: it has not ended, and no person has stopped or deleted it.
:is_not_deleted
and pulse.wanted is null
and pulse.state in ('p', 's', 'f')
and :is_recurring

-- fragment: is_counted
-- The next beat comes by itself, so the map of the load counts the job.
:follows_schedule
and pulse.next_beat_at is not null

-- fragment: may_still_run
-- The job waits, is paused or disabled, or has failed with a beat, a retry or a manual run to come.
evenbeat.is_live(pulse.state, pulse.retry_at, pulse.next_beat_at, pulse.manual_at)

-- fragment: holds_dedupe_key
-- The same, as the unique index `pulse_dedupe` has it. PostgreSQL finds the index by this text, so the
-- columns have no table in front.
evenbeat.is_live(state, retry_at, next_beat_at, manual_at)

-- fragment: current_state
-- The state as people see it: a running or a parked job keeps its state at rest in `pulse.state`.
evenbeat.shown_state(pulse)

-- fragment: mean_duration_s
-- How many seconds a run of the job takes on average, from the last 30 days.
(
    select sum(run_day.duration_ms) / nullif(sum(run_day.completed), 0) / 1000.0
    from evenbeat.run_day
    where run_day.job_id = job.id
      and run_day.day > (:now at time zone 'UTC')::date - 30
)

-- fragment: is_alive
-- The lease of the node holds. Nodes go by the database's own clock, even where tests set :now. A
-- swept node is dead; the condition lets PostgreSQL use the index of nodes that were not swept.
node.dead_at is null
and node.swept_at is null
and node.alive_until > statement_timestamp()
