-- version: 1
-- evenbeat.enqueue adds a job that runs once, in the transaction of its caller.

-- Returns what is wrong with a job, as "field: what to do about it"; null: nothing. The limits are
-- those of Python's checks. The handler's own check of the payload needs Python and is not made.
-- jsonpath rather than casts: a value of another type is then a fault, and not an error of the cast.
create or replace function evenbeat.fault_of_job(
    kind text, payload jsonb, run_at timestamptz, name text, dedupe_key text, options jsonb
) returns text
language plpgsql stable
as $$
#variable_conflict use_column
declare
    known constant text[] := '{priority,max_attempts,timeout,labels,runs_on,group}';
    unknown constant text := (
        select min(given.option)
        from jsonb_object_keys(
            case when jsonb_typeof(options) = 'object' then options else '{}' end
        ) as given (option)
        where given.option <> all (known)
    );
begin
    return case
        when kind is null or not exists (select from evenbeat.lane where lane.kind = fault_of_job.kind)
            then format('kind: no kind %L; known kinds: %s', kind, (
                select string_agg(distinct lane.kind, ', ' order by lane.kind) from evenbeat.lane
            ))
        -- A node that could not read one payload could not read the jobs of the same claim either.
        when octet_length(payload::text) > 1000000
            then 'payload: is larger than 1,000,000 bytes as JSON'
        when jsonb_path_exists(payload, 'strict $.**{64 to last}')
            then 'payload: is nested deeper than 64 levels'
        when jsonb_path_exists(
            payload, 'strict $.** ? (@.type() == "number" && (@ > 1.7e308 || @ < -1.7e308))'
        ) then 'payload: has a number that is too large; send it as text'
        when run_at is null or run_at not between '2000-01-01Z' and '2200-01-01Z'
            then 'run_at: must lie between 2000-01-01 and 2200-01-01'
        when length(name) not between 1 and 200 then 'name: must have 1 to 200 characters'
        when btrim(name) = '' then 'name: must not be blank'
        when length(dedupe_key) not between 1 and 200
            then 'dedupe_key: must have 1 to 200 characters'
        when jsonb_typeof(options) is distinct from 'object'
            then 'options: must be an object, such as {"priority": 50}'
        when options ? 'schedule'
            then 'options.schedule: this function adds jobs that run once, at run_at; '
                'add recurring ones from Python or over the API'
        when unknown is not null
            then format('options.%s: is not known; there are priority, max_attempts, timeout, '
                'labels, runs_on and group', unknown)
        when jsonb_path_exists(options, 'strict $.priority ? (
            !(@.type() == "number" && @ >= 0 && @ <= 100 && @.floor() == @))', silent => true)
            then 'options.priority: must be a whole number from 0 to 100'
        when jsonb_path_exists(options, 'strict $.max_attempts ? (
            !(@.type() == "number" && @ >= 1 && @ <= 1000 && @.floor() == @))', silent => true)
            then 'options.max_attempts: must be a whole number from 1 to 1000'
        when jsonb_path_exists(options, 'strict $.timeout ? (
            !(@.type() == "number" && @ >= 0.001 && @ <= 2592000))', silent => true)
            then 'options.timeout: must be seconds, from 0.001 to 2592000 (30 days)'
        when jsonb_path_exists(options, 'strict $.labels ? (@.type() != "object")', silent => true)
            or jsonb_path_exists(options, 'strict $.labels.* ? (@.type() != "string")', silent => true)
            then 'options.labels: must be an object of texts'
        when (
            select count(*) > 50
                or bool_or(length(label.name) not between 1 and 100 or length(label.value) > 200)
            from jsonb_each_text(coalesce(options -> 'labels', '{}')) as label (name, value)
        ) then 'options.labels: must be at most 50, with names of 1 to 100 characters and values of '
            'at most 200'
        when jsonb_path_exists(options, 'strict $.runs_on ? (@.type() != "array")', silent => true)
            or jsonb_path_exists(options, 'strict $.runs_on[*] ? (
                @.type() != "string" || @ == "")', silent => true)
            then 'options.runs_on: must be an array of texts'
        when (
            select count(*) > 50 or bool_or(length(asked.label) > 100)
            from jsonb_array_elements_text(coalesce(options -> 'runs_on', '[]')) as asked (label)
        ) then 'options.runs_on: must be at most 50 labels of at most 100 characters'
        when jsonb_path_exists(options, 'strict $.group ? (@.type() != "object")', silent => true)
            then 'options.group: must be an object with a key'
        when options ? 'group' and (
            jsonb_typeof(options #> '{group,key}') is distinct from 'string'
            or length(options #>> '{group,key}') not between 1 and 200
        ) then 'options.group.key: must be a text of 1 to 200 characters'
        when options #>> '{group,key}' ~ '[{}]'
            then 'options.group.key: write the key itself; {…} is filled in by Python only'
        when jsonb_path_exists(options, 'strict $.group.max_running ? (
            !(@.type() == "number" && @ >= 1 && @ <= 100000 && @.floor() == @))', silent => true)
            then 'options.group.max_running: must be a whole number from 1 to 100000'
        when (options -> 'group') - 'key' - 'max_running' <> '{}'
            then 'options.group: has key and max_running, and nothing else'
    end;
end
$$;

-- A UUIDv7: the milliseconds, the version, and the rest of a random one.
create or replace function evenbeat.new_uid(at timestamptz) returns uuid
language sql volatile
as $$
    select (
        lpad(to_hex(floor(extract(epoch from at) * 1000)::bigint), 12, '0')
        || '7' || substr(replace(gen_random_uuid()::text, '-', ''), 14)
    )::uuid;
$$;

-- Adds the job and returns its public id. A rollback of the caller's transaction takes the job back;
-- with the commit the nodes hear of it. It writes what Python's `add` writes. While a live job holds
-- the dedupe key, its id is returned instead. The clock is the database's own, in tests too.
create or replace function evenbeat.enqueue(
    kind text,
    payload jsonb default '{}',
    run_at timestamptz default now(),
    name text default null,
    dedupe_key text default null,
    options jsonb default '{}'
) returns uuid
language plpgsql
as $$
#variable_conflict use_column
declare
    fault constant text := evenbeat.fault_of_job(kind, payload, run_at, name, dedupe_key, options);
    at constant timestamptz := statement_timestamp();
    asked_labels text[];
    asked_lane smallint;
    asked_group bigint;
    new_id bigint;
    new_uid uuid;
    holder uuid;
begin
    if fault is not null then
        raise exception '%', fault using errcode = 'invalid_parameter_value';
    end if;
    asked_labels := array(
        select distinct asked.label collate "C"
        from jsonb_array_elements_text(options -> 'runs_on') as asked (label)
        order by 1
    );
    new_uid := evenbeat.new_uid(at);

    -- Lanes, then groups, then keys, then names: all statements that add jobs lock in this order.
    loop
        select lane.id into asked_lane
        from evenbeat.lane
        where lane.kind = enqueue.kind
          and lane.runs_on = asked_labels;
        exit when found;
        insert into evenbeat.lane (kind, runs_on)
        values (enqueue.kind, asked_labels)
        on conflict (kind, runs_on) do nothing;
    end loop;
    while options ? 'group' and asked_group is null loop
        select job_group.id into asked_group
        from evenbeat.job_group
        where job_group.key = options #>> '{group,key}';
        exit when found;
        insert into evenbeat.job_group (key, max_running, created_at, limits_at)
        values (options #>> '{group,key}', (options #>> '{group,max_running}')::integer, at, at)
        on conflict (key) do nothing;
    end loop;

    loop
        insert into evenbeat.pulse (
            id, lane_id, group_id, priority, state, state_at, next_beat_at, dedupe_key
        )
        values (
            nextval('evenbeat.job_id_seq'), asked_lane, asked_group,
            coalesce((options ->> 'priority')::numeric, 0)::smallint, 'p', at, run_at,
            enqueue.dedupe_key
        )
        on conflict (dedupe_key) where dedupe_key is not null
            and evenbeat.is_live(state, retry_at, next_beat_at, manual_at) do nothing
        returning pulse.id into new_id;
        exit when found;
        select job.uid into holder
        from evenbeat.pulse
        join evenbeat.job on job.id = pulse.id
        where pulse.dedupe_key = enqueue.dedupe_key
          and evenbeat.is_live(pulse.state, pulse.retry_at, pulse.next_beat_at, pulse.manual_at);
        if found then
            return holder;
        end if;
    end loop;

    insert into evenbeat.job (
        id, uid, name, kind, payload, timetable, policy, labels, group_key, runs_on, created_at,
        updated_at
    )
    overriding system value
    values (
        new_id, new_uid, enqueue.name, enqueue.kind, coalesce(payload, 'null'),
        jsonb_build_object('schedule', jsonb_build_object('once', concat(
            to_char(run_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS'),
            case when run_at <> date_trunc('second', run_at)
                then to_char(run_at at time zone 'UTC', '.US') end,
            'Z'
        ))),
        -- As in Python: only what differs from the defaults.
        case when (options -> 'max_attempts')::numeric <> 3
            then jsonb_build_object('max_attempts', (options ->> 'max_attempts')::numeric::integer)
            else '{}' end
        || case when (options -> 'timeout')::numeric <> 3600
            then jsonb_build_object('timeout', round((options ->> 'timeout')::numeric, 6))
            else '{}' end,
        coalesce(options -> 'labels', '{}'), options #>> '{group,key}', asked_labels, at, at
    )
    on conflict (name) where name is not null and deleted_at is null do nothing;
    if not found then
        raise exception 'name: there is a job named % already', quote_literal(enqueue.name)
            using errcode = 'unique_violation';
    end if;

    if run_at < at + interval '10 seconds' then
        perform pg_notify('evenbeat_wake', '');
    end if;
    return new_uid;
end
$$;
