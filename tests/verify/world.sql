-- A healthy database, written by hand: what a day of work leaves behind, with every sort of row.
-- Jobs: 1 recurring, 2 buried, 3 running in a group, 4 done in the group, 5 paused before its first
-- beat, 6 handed back once, 7 paused after runs by hand. Node 1 lives, node 2 is dead and swept.

insert into evenbeat.lane (id, kind) overriding system value values (1, 'work');

insert into evenbeat.node (id, name, kinds, labels, joined_at, alive_until, dead_at, swept_at)
overriding system value
values
    (1, 'here:1', '{work}', '{}', now() - interval '1 hour', now() + interval '1 hour', null, null),
    (2, 'gone:1', '{work}', '{}', now() - interval '2 hours', now() - interval '1 hour',
     now() - interval '1 hour', now() - interval '1 hour');

insert into evenbeat.job_group (id, key, max_running, created_at, limits_at)
overriding system value values (1, 'shared', 2, '2030-01-01 12:00Z', '2030-01-01 12:00Z');

insert into evenbeat.job (
    id, uid, kind, payload, timetable, policy, labels, group_key, created_at, updated_at
)
overriding system value
select
    id, gen_random_uuid(), 'work', '{}',
    case
        when id in (1, 5) then '{"schedule": {"every": "1m", "phase": "0s"}}'::jsonb
        else '{"schedule": {"once": "2030-01-01T12:00:00Z"}}'
    end,
    '{}', '{}', case when id in (3, 4) then 'shared' end, '2030-01-01 12:00Z', '2030-01-01 12:00Z'
from generate_series(1, 7) as id;

insert into evenbeat.pulse (
    id, lane_id, group_id, state, state_at, next_beat_at, beat_at, token, node_id, run_id,
    run_number, started_at, attempt, cause, completed_count, failed_count
)
values
    (1, 1, null, 's', '2030-01-01 12:05:30Z', '2030-01-01 12:06Z', '2030-01-01 12:03Z', null, 1, 3,
     4, '2030-01-01 12:03Z', 1, 's', 3, 0),
    (2, 1, null, 'f', '2030-01-01 12:03Z', null, '2030-01-01 12:00Z', null, 1, 7,
     3, '2030-01-01 12:02Z', 3, 't', 0, 3),
    (3, 1, 1, 'p', '2030-01-01 12:00Z', '2030-01-01 12:00Z', '2030-01-01 12:00Z', 77, 1, 8,
     1, '2030-01-01 12:00Z', 1, 's', 0, 0),
    (4, 1, 1, 'c', '2030-01-01 12:00:10Z', null, '2030-01-01 12:00Z', null, 1, 9,
     1, '2030-01-01 12:00Z', 1, 's', 1, 0),
    (5, 1, null, 'z', '2030-01-01 12:00Z', '2030-01-01 12:01Z', null, null, null, null,
     0, null, 0, null, 0, 0),
    (6, 1, null, 'c', '2030-01-01 12:02Z', null, '2030-01-01 12:00Z', null, 1, 11,
     2, '2030-01-01 12:01Z', 1, 't', 1, 0),
    (7, 1, null, 'z', '2030-01-01 12:03Z', '2030-01-01 12:00Z', null, null, 1, 14,
     3, '2030-01-01 12:02Z', 0, 'm', 0, 0);
update evenbeat.pulse set permit_group_id = 1 where id in (3, 4);
insert into evenbeat.permit (group_id, job_id) values (1, 3);
insert into evenbeat.job_version (job_id, version, definition, replaced_at, replaced_by)
values (7, 1, '{}', '2030-01-01 12:00Z', 'tests');
update evenbeat.job set version = 2 where id = 7;
update evenbeat.pulse set def_version = 2 where id = 7;

insert into evenbeat.run (
    id, job_id, number, state, cause, beat_at, attempt, node_id, started_at, finished_at,
    error_class, skipped_count, skipped_until, reason
)
values
    (1, 1, 1, 'c', 's', '2030-01-01 12:01Z', 1, 1, '2030-01-01 12:01Z', '2030-01-01 12:01:10Z',
     null, null, null, null),
    (2, 1, 2, 'c', 's', '2030-01-01 12:02Z', 1, 1, '2030-01-01 12:02Z', '2030-01-01 12:02:10Z',
     null, null, null, null),
    (3, 1, 3, 'c', 's', '2030-01-01 12:03Z', 1, 1, '2030-01-01 12:03Z', '2030-01-01 12:05:30Z',
     null, null, null, null),
    (4, 1, 4, 'k', 's', '2030-01-01 12:04Z', 0, null, '2030-01-01 12:05:30Z',
     '2030-01-01 12:05:30Z', null, 2, '2030-01-01 12:05Z', 'the run before was still going'),
    (5, 2, 1, 'f', 's', '2030-01-01 12:00Z', 1, 1, '2030-01-01 12:00Z', '2030-01-01 12:00:10Z',
     'lost', null, null, null),
    (6, 2, 2, 'f', 't', '2030-01-01 12:00Z', 2, 1, '2030-01-01 12:01Z', '2030-01-01 12:01:10Z',
     'handler_error', null, null, null),
    (7, 2, 3, 'f', 't', '2030-01-01 12:00Z', 3, 1, '2030-01-01 12:02Z', '2030-01-01 12:03Z',
     'handler_error', null, null, null),
    (9, 4, 1, 'c', 's', '2030-01-01 12:00Z', 1, 1, '2030-01-01 12:00Z', '2030-01-01 12:00:10Z',
     null, null, null, null),
    (10, 6, 1, 'x', 's', '2030-01-01 12:00Z', 1, 1, '2030-01-01 12:00Z', '2030-01-01 12:00:10Z',
     'handed_back', null, null, 'the node stopped'),
    (11, 6, 2, 'c', 't', '2030-01-01 12:00Z', 1, 1, '2030-01-01 12:01Z', '2030-01-01 12:02Z',
     null, null, null, null),
    (12, 7, 1, 'x', 'm', null, 1, 1, '2030-01-01 12:00Z', '2030-01-01 12:00:10Z',
     'cancelled', null, null, 'cancelled by hand'),
    (13, 7, 2, 'x', 'm', null, 1, 1, '2030-01-01 12:01Z', '2030-01-01 12:01:10Z',
     'cancelled', null, null, 'cancelled by hand'),
    (14, 7, 3, 'x', 'm', null, 1, 1, '2030-01-01 12:02Z', '2030-01-01 12:03Z',
     'cancelled', null, null, 'cancelled by hand');

insert into evenbeat.dead_letter (
    id, job_id, job_uid, kind, payload, beat_at, attempts, created_at
)
select 7, 2, job.uid, 'work', '{}', '2030-01-01 12:00Z', 3, '2030-01-01 12:03Z'
from evenbeat.job
where job.id = 2;

-- Counted up to run 6; the days of one-off jobs are under job 0.
insert into evenbeat.chore (name, cursor, goal, next_at) values ('count', 6, 6, now());
insert into evenbeat.run_day (
    day, kind, group_key, job_id, completed, failed, lost, cancelled, skipped, retried, duration_ms,
    longest_ms, items_crawled, items_indexed
)
values
    ('2030-01-01', 'work', '', 1, 3, 0, 0, 0, 2, 0, 0, 0, 0, 0),
    ('2030-01-01', 'work', '', 0, 0, 2, 1, 0, 0, 1, 0, 0, 0, 0);

insert into evenbeat.run_log (run_id, at, level, message)
values (9, '2030-01-01 12:00Z', 'info', 'over');

-- A plan that was applied and taken back.
insert into evenbeat.rebalance_plan (
    id, made_at, made_by, seen, job_count, before, after, attainable_score, move_count, skip_count,
    undoes, number, applied_at, applied_by, undone_at, undone_by
)
values
    ('00000000-0000-0000-0000-000000000001', '2030-01-01 12:00Z', 'ann', 0, 2, '{}', '{}', 1, 1, 1,
     null, 1, '2030-01-01 12:01Z', 'ann', '2030-01-01 12:02Z', 'bob'),
    ('00000000-0000-0000-0000-000000000002', '2030-01-01 12:02Z', 'bob', 0, 2, '{}', '{}', 1, 0, 0,
     '00000000-0000-0000-0000-000000000001', null, '2030-01-01 12:02Z', 'bob', null, null);
insert into evenbeat.rebalance_move (
    plan_id, job_id, job_uid, old_phase_s, new_phase_s, old_next_at, new_next_at, effective_from
)
values ('00000000-0000-0000-0000-000000000001', 1, gen_random_uuid(), 0, 30, '2030-01-01 13:00Z',
    '2030-01-01 13:00:30Z', '2030-01-01 13:00:30Z');
insert into evenbeat.rebalance_skip (plan_id, job_id, job_uid, reason)
values ('00000000-0000-0000-0000-000000000001', 3, gen_random_uuid(), 'job_running');

-- The map: what beats is in it, where its own phase puts it.
insert into evenbeat.placement (job_id, interval_s, phase_s, cost_s, timetable)
values (1, 60, 0, 1, '{"schedule": {"every": "1m", "phase": "0s"}}');
insert into evenbeat.load_delta (job_id, jobs, interval_s, phase_s, cost_s, timetable)
select job_id, 1, interval_s, phase_s, cost_s, timetable from evenbeat.placement;
