-- version: 1
-- The grammar of cron: a bad expression is refused in the INSERT. When a job beats is worked out by
-- Python alone. A law test (tests/laws/test_sql_cron.py) holds both grammars equal.

-- Returns the values that a field of a cron expression stands for; null: the field is not valid.
-- Days: 100 is the last of the month, 101 its last weekday. Days of the week: 10 n + d is the n-th d
-- of the month, 90 + d its last. It has the oddities of Python's parser too.
create or replace function evenbeat.cron_values(field text, low integer, high integer, names text[])
returns integer[]
language plpgsql immutable strict
set search_path = pg_catalog, pg_temp
as $$
declare
    is_day constant boolean := high = 31;
    is_weekday constant boolean := high = 7;
    number constant text := '0*([0-9]{1,2})';
    term text;
    word text;
    parts text[];
    step integer;
    begins integer;
    ends integer;
    found integer[] := '{}';
begin
    foreach term in array string_to_array(field, ',') loop
        if term ~ '^[^/]*/[1-9][0-9]{3,}$' then
            return null;
        end if;
        -- 5-5/10 is 5, whatever 5 is, and not every tenth from 5 on.
        parts := regexp_match(term, '^([^-/]*)-([^/]*)/0*[1-9][0-9]*$');
        if ltrim(parts[1], '0') = ltrim(parts[2], '0') then
            term := parts[1];
        end if;
        term := upper(term);
        if is_weekday then
            parts := regexp_match(term, '^' || number || 'L$');
            if parts is not null and parts[1]::integer <= high then
                found := found || 90 + parts[1]::integer;
                continue;
            end if;
        end if;
        for begins in 1 .. cardinality(names) loop
            term := regexp_replace(
                term, '(^|-)' || names[begins] || '(?=$|[-/#])',
                '\1' || (low + begins - 1)::text, 'g'
            );
        end loop;
        if is_weekday then
            parts := regexp_match(term, '^' || number || '#0*([1-5])$');
            if parts is not null and parts[1]::integer <= high then
                found := found || parts[2]::integer * 10 + parts[1]::integer;
                continue;
            end if;
        end if;
        word := split_part(term, '/', 1);
        step := 1;
        if word <> term then
            parts := regexp_match(term, '^[^/]*/0*([1-9][0-9]*)$');
            if parts is null then
                return null;
            end if;
            step := least(parts[1]::numeric, 1000);
        end if;
        if is_day and word in ('L', 'LW') then
            found := found || case word when 'L' then 100 else 101 end;
            continue;
        end if;
        parts := regexp_match(word, '^' || number || '(?:-' || number || ')?$');
        if word = '*' then
            begins := low;
            ends := high;
        elsif parts is null then
            return null;
        else
            begins := parts[1]::integer;
            ends := coalesce(parts[2]::integer, case when word = term then begins else high end);
            -- A step from a range of one value goes on to the end of the field.
            if begins = ends and word <> term then
                ends := high;
            end if;
            if parts[2]::integer < begins or parts[2]::integer > high then
                return null;
            end if;
        end if;
        if begins < low or ends > high then
            return null;
        end if;
        found := found || array(select generate_series(begins, ends, step));
    end loop;
    return nullif(found, '{}');
end
$$;

-- Whether any day is named by these months, days and days of the week.
create or replace function evenbeat.cron_has_day(
    months integer[], days integer[], weekdays integer[], needs_both boolean
) returns boolean
language sql immutable strict
set search_path = pg_catalog, pg_temp
as $$
    select exists (
        select
        from unnest(months) as month
        cross join lateral unnest(
            case
                when month = 2 then array[28, 29]
                when month in (4, 6, 9, 11) then array[30]
                else array[31]
            end
        ) as length
        cross join generate_series(0, 6) as first_weekday
        cross join lateral generate_series(1, length) as day
        cross join lateral (
            select
                (first_weekday + day - 1) % 7 as weekday,
                (first_weekday + length - 1) % 7 as last_weekday
        ) as of_day
        cross join lateral (
            select
                day = any (days)
                or 100 = any (days) and day = length
                or 101 = any (days) and day = length - case last_weekday
                    when 0 then 2
                    when 6 then 1
                    else 0
                end as is_day,
                weekday = any (weekdays)
                or (weekday = 0 and 7 = any (weekdays))
                or exists (
                    select
                    from unnest(weekdays) as code
                    where code >= 10
                      and (code % 10) % 7 = weekday
                      and case
                          when code >= 90 then day + 7 > length
                          else code / 10 = (day + 6) / 7
                      end
                ) as is_weekday
        ) as matched
        where case when needs_both then is_day and is_weekday else is_day or is_weekday end
    );
$$;

-- Returns what is wrong with a cron expression, and what to write instead; null: nothing.
create or replace function evenbeat.cron_fault(expression text) returns text
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    words text;
    field text[];
    days integer[];
    months integer[];
    weekdays integer[];
begin
    if expression is null or expression collate "C" ~ '[^\t -~]' then
        return 'only plain letters, digits and signs';
    end if;
    words := btrim(translate(expression, E'\t', ' '), ' ');
    if words ~ '^@' then
        return case
            when lower(words) not in (
                '@hourly', '@daily', '@midnight', '@weekly', '@monthly', '@yearly', '@annually'
            ) then 'there are @hourly @daily @midnight @weekly @monthly @yearly @annually'
        end;
    end if;
    field := regexp_split_to_array(words, ' +');
    if words = '' or cardinality(field) not in (5, 6) then
        return 'write 5 fields (minute hour day month weekday), or 6 with seconds first';
    end if;
    if words ~ '(^|[ ,])H' then
        return 'H is chosen by Python: add the job from there or over the API, or write a number';
    end if;
    if cardinality(field) = 5 then
        field := array_prepend('0', field);
    end if;
    days := evenbeat.cron_values(field[4], 1, 31, '{}');
    months := evenbeat.cron_values(
        field[5], 1, 12, '{JAN,FEB,MAR,APR,MAY,JUN,JUL,AUG,SEP,OCT,NOV,DEC}'
    );
    weekdays := evenbeat.cron_values(field[6], 0, 7, '{SUN,MON,TUE,WED,THU,FRI,SAT}');
    return case
        when evenbeat.cron_values(field[1], 0, 59, '{}') is null
            then 'bad second, the first of six fields: 0-59'
        when evenbeat.cron_values(field[2], 0, 59, '{}') is null
            then 'bad minute: 0-59, *, lists, ranges, steps such as */15'
        when evenbeat.cron_values(field[3], 0, 23, '{}') is null
            then 'bad hour: 0-23, *, lists, ranges, steps such as */6'
        when days is null then 'bad day of the month: 1-31, L or LW'
        when months is null then 'bad month: 1-12 or JAN-DEC'
        when weekdays is null
            then 'bad day of the week: 0-7 (0 and 7 are Sunday) or SUN-SAT, MON#2, 5L; '
                'ranges run from the smaller to the larger'
        when not evenbeat.cron_has_day(
            months, days, weekdays, field[4] ~ '^\*' or field[6] ~ '^\*'
        ) then 'names a day that never comes'
    end;
end
$$;
