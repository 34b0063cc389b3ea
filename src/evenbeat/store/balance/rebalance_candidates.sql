-- Every job that counts, as a rebalance reads it.

-- fragment: candidate
-- `place,until` is compared as text: ISO instants sort as text, and a malformed one raises no error.
    job.id, job.uid, job.name, pulse.next_beat_at, pulse.token is not null as is_running,
    coalesce(
        job.timetable #>> '{place,until}' collate "C"
        > to_char(:now at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS'), false
    ) as is_moving

-- name: candidates
-- A page of the jobs in the map, or of those of one group.
select
    :candidate, placement.placed_at, placement.interval_s, placement.phase_s, placement.cost_s,
    placement.timetable::text as timetable
from evenbeat.placement
join evenbeat.job on job.id = placement.job_id
join evenbeat.pulse on pulse.id = placement.job_id
where placement.job_id > :after
  and (:group_key::text is null or job.group_key = :group_key)
order by placement.job_id
limit :limit;

-- name: candidates_without_map
-- The same from the jobs themselves, where balancing is off and there is no map.
select
    :candidate, placement.placed_at, job.timetable::text as timetable, :mean_duration_s::float8 as cost
from evenbeat.job
join evenbeat.pulse on pulse.id = job.id
left join evenbeat.placement on placement.job_id = job.id
where job.id > :after
  and :is_counted
  and (:group_key::text is null or job.group_key = :group_key)
order by job.id
limit :limit;
