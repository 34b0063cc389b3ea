-- version: 1
-- What an INSERT, UPDATE or DELETE on metadata.scheduled_jobs does to a job: the actions add, edit,
-- enable, disable and delete of the other faces, written once more in SQL. They happen at once, so
-- that all faces show the same in the same transaction. A test does each of them to every sort of
-- job, here and in Python, and compares the rows (test_changes.py of the SQL face's contract).
--
-- No beat is worked out here. A job that needs one is put on the list `unplanned`, with the instant
-- from which on it is owed beats, and a node plans it within a second.

-- Writes the action of an SQL client into the audit, in the words of the other faces.
create or replace function evenbeat.note_of_sql(
    action text, of_job evenbeat.job, before jsonb, after jsonb
) returns void
language sql
as $$
    insert into evenbeat.audit (at, actor, action, job_id, job_uid, job_name, before, after)
    values (
        evenbeat.clock(), 'sql:' || session_user, action, of_job.id, of_job.uid, of_job.name,
        before, after
    );
$$;

-- Nothing of the job is to come for now: a node takes it off the map of the load.
create or replace function evenbeat.unplace(gone bigint) returns void
language sql
as $$
    insert into evenbeat.unplaced (job_id, beat_count)
    values (gone, -1)
    on conflict (job_id) do update set beat_count = excluded.beat_count;
$$;

create or replace function evenbeat.add_job_of_sql(given evenbeat.sql_job) returns void
language plpgsql
as $$
declare
    at constant timestamptz := evenbeat.clock();
    added evenbeat.job;
begin
    insert into evenbeat.lane (kind) values ('sql_function') on conflict (kind, runs_on) do nothing;
    insert into evenbeat.pulse (id, lane_id, state, state_at)
    select given.job_id, lane.id, case when given.enabled then 's' else 'd' end, at
    from evenbeat.lane
    where lane.kind = 'sql_function'
      and lane.runs_on = '{}';
    insert into evenbeat.job (
        id, uid, name, kind, payload, timetable, policy, labels, created_at, updated_at
    )
    overriding system value
    values (
        given.job_id, evenbeat.new_uid(at), given.name, 'sql_function',
        jsonb_build_object('function', given.function),
        jsonb_build_object(
            'schedule', jsonb_build_object('cron', given.schedule, 'zone', given.timezone)
        ),
        '{}', '{}', at, at
    )
    on conflict (name) where name is not null and deleted_at is null do nothing
    returning * into added;
    if added.id is null then
        raise exception 'name: there is a job named % already, which is not one of these',
            quote_literal(given.name)
            using errcode = 'unique_violation', column = 'name';
    end if;
    -- Planned even if it is disabled: then the beats that it is kept from can be recorded.
    insert into evenbeat.unplanned (job_id, since) values (given.job_id, at);
    perform evenbeat.note_of_sql('add', added, '{}', '{}');
end
$$;

-- Another definition, as an edit on any other face: the old one is kept as a version, no beat is
-- lost and none is run twice. A beat that is due and not begun stays owed.
create or replace function evenbeat.edit_job_of_sql(given evenbeat.sql_job, beating evenbeat.pulse)
returns void
language plpgsql
as $$
declare
    at constant timestamptz := evenbeat.clock();
    is_aside constant boolean := evenbeat.is_aside(beating);
    -- While a run of a beat is open, its end records the beats that follow it.
    is_due constant boolean := beating.next_beat_at <= at
        and not evenbeat.is_beat_in_hand(beating);
    was evenbeat.job;
    edited evenbeat.job;
begin
    select * into was from evenbeat.job where job.id = given.job_id;
    insert into evenbeat.job_version (job_id, version, definition, replaced_at, replaced_by)
    values (
        was.id, was.version,
        jsonb_build_object(
            'name', was.name, 'kind', was.kind, 'payload', was.payload,
            'timetable', was.timetable, 'policy', was.policy, 'labels', was.labels,
            'group_key', was.group_key, 'group_limit', beating.group_limit,
            'priority', beating.priority, 'runs_on', was.runs_on, 'wording', was.wording
        ),
        at, 'sql:' || session_user
    );
    begin
        update evenbeat.job
        set name = given.name,
            payload = job.payload || jsonb_build_object('function', given.function),
            timetable = case
                when (job.timetable #>> '{schedule,cron}', job.timetable #>> '{schedule,zone}')
                    is not distinct from (given.schedule, given.timezone) then job.timetable
                else jsonb_set(
                    job.timetable, '{schedule}', (job.timetable -> 'schedule') - 'seed'
                    || jsonb_build_object('cron', given.schedule, 'zone', given.timezone)
                )
            end,
            wording = '{}',
            version = job.version + 1,
            updated_at = at
        where job.id = given.job_id
        returning * into edited;
    exception when unique_violation then
        raise exception 'name: there is a job named % already', quote_literal(given.name)
            using errcode = 'unique_violation', column = 'name';
    end;
    update evenbeat.pulse
    set def_version = edited.version,
        is_parked = false
    where pulse.id = edited.id;
    perform evenbeat.note_of_sql('edit', edited,
        jsonb_build_object('name', was.name, 'payload', was.payload, 'timetable', was.timetable,
            'version', was.version),
        jsonb_build_object('name', edited.name, 'payload', edited.payload,
            'timetable', edited.timetable, 'version', edited.version));
    if edited.timetable = was.timetable then
        return;
    end if;
    if was.timetable ? 'window' then
        raise exception 'schedule: the job has a window; change its schedule over the API'
            using errcode = 'check_violation', column = 'schedule';
    end if;
    -- An edit does not bring a job back that is over.
    if evenbeat.is_over(beating) then
        return;
    end if;
    update evenbeat.pulse
    set next_beat_at = null,
        plan_version = pulse.plan_version + 1
    where pulse.id = edited.id;
    perform evenbeat.unplace(edited.id);
    -- A job that waits for its plan already stays owed since then, by the newest timetable.
    insert into evenbeat.unplanned (
        job_id, since, owed_at, passed_from, old_timetable, passed_in
    )
    values (
        edited.id, at,
        case
            when is_due and beating.retry_at is null and evenbeat.is_owed(beating, at)
                then beating.next_beat_at
        end,
        case when is_due then beating.next_beat_at end,
        case when is_due then was.timetable end,
        case when is_due and is_aside then beating.state end
    )
    on conflict (job_id) do nothing;
end
$$;

-- enabled = false is the action `disable` of the other faces, and true is `enable`.
create or replace function evenbeat.switch_job_of_sql(given evenbeat.sql_job, beating evenbeat.pulse)
returns void
language plpgsql
as $$
declare
    at constant timestamptz := evenbeat.clock();
    was_disabled constant boolean := beating.state = 'd';
    switched evenbeat.job;
begin
    if not evenbeat.can_be_switched(beating) then
        raise exception 'enabled: job % has ended; retry it over the API, or delete it here and '
            'insert it again', quote_literal(given.name) using errcode = 'check_violation';
    end if;
    if given.enabled then
        update evenbeat.pulse
        set wanted = null,
            state = case when was_disabled then 's' else pulse.state end,
            state_at = case
                when was_disabled or pulse.wanted is not null then at
                else pulse.state_at
            end,
            next_beat_at = case when was_disabled then null else pulse.next_beat_at end,
            plan_version = pulse.plan_version
                + (was_disabled and beating.token is not null)::integer
        where pulse.id = given.job_id;
        if was_disabled then
            -- The beats since it was disabled are passed over, and the planner records them.
            insert into evenbeat.unplanned (job_id, since, passed_from, old_timetable, passed_in)
            select job.id, at, beating.next_beat_at, job.timetable, 'd'
            from evenbeat.job
            where job.id = given.job_id
            on conflict (job_id) do update
            set since = excluded.since,
                passed_from = coalesce(
                    unplanned.passed_from, excluded.passed_from, unplanned.since
                ),
                old_timetable = coalesce(unplanned.old_timetable, excluded.old_timetable),
                passed_in = excluded.passed_in;
        end if;
    elsif beating.token is not null then
        update evenbeat.pulse set wanted = 'd', state_at = at where pulse.id = given.job_id;
    else
        update evenbeat.pulse
        set state = 'd',
            state_at = at,
            is_parked = false,
            -- A run by hand that waits does not run either. Where nothing else is to come, it is
            -- owed once the job is enabled again.
            next_beat_at = case
                when evenbeat.has_next(pulse) then pulse.next_beat_at
                else pulse.manual_at
            end,
            manual_at = null
        where pulse.id = given.job_id;
    end if;
    if not given.enabled then
        perform evenbeat.unplace(given.job_id);
    end if;
    select * into switched from evenbeat.job where job.id = given.job_id;
    perform evenbeat.note_of_sql(
        case when given.enabled then 'enable' else 'disable' end, switched,
        jsonb_build_object('enabled', not given.enabled),
        jsonb_build_object('enabled', given.enabled)
    );
end
$$;

-- DELETE is the action `delete` of the other faces: a run in hand is stopped, the history stays.
create or replace function evenbeat.delete_job_of_sql(gone bigint) returns void
language plpgsql
as $$
declare
    at constant timestamptz := evenbeat.clock();
    deleted evenbeat.job;
begin
    update evenbeat.pulse
    set wanted = case when pulse.token is not null then 'x' end,
        state = case when pulse.token is null and pulse.state not in ('c', 'f') then 'x'
            else pulse.state end,
        state_at = case
            when pulse.token is null and pulse.state in ('c', 'f', 'x') then pulse.state_at
            else at
        end,
        next_beat_at = case when pulse.token is not null then pulse.next_beat_at end,
        retry_at = case when pulse.token is not null then pulse.retry_at end,
        manual_at = case when pulse.token is not null then pulse.manual_at end,
        is_parked = false,
        plan_version = pulse.plan_version + 1
    where pulse.id = gone;
    delete from evenbeat.unplanned where unplanned.job_id = gone;
    perform evenbeat.unplace(gone);
    update evenbeat.job set deleted_at = at where job.id = gone returning * into deleted;
    perform evenbeat.note_of_sql(
        'delete', deleted, '{"is_deleted": false}', '{"is_deleted": true}'
    );
end
$$;
