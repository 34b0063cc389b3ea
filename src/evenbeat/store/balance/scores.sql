-- name: add
-- Two processes that measure at the same instant write one row.
insert into evenbeat.score (at, score, minute_score, peak, peak_over_ideal, job_count)
values (:now, :score, :minute_score, :peak, :peak_over_ideal, :job_count)
on conflict (at) do update
set score = excluded.score,
    minute_score = excluded.minute_score,
    peak = excluded.peak,
    peak_over_ideal = excluded.peak_over_ideal,
    job_count = excluded.job_count;

-- name: history
-- The worst score of every :step, oldest first: an average would hide a short drop.
select distinct on (date_bin(:step::interval, score.at, timestamptz '2000-01-01 00:00Z'))
    score.at, score.score, score.minute_score, score.peak, score.peak_over_ideal, score.job_count
from evenbeat.score
where score.at > :now - :reach::interval
order by date_bin(:step::interval, score.at, timestamptz '2000-01-01 00:00Z'), score.score, score.at;

-- name: forget
delete from evenbeat.score
where score.at in (
    select old.at
    from evenbeat.score as old
    where old.at < :now - :kept_for::interval
    order by old.at
    limit :limit
);
