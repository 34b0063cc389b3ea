-- name: put
-- Make it, or change it.
insert into evenbeat.template as t (
    name, description, job, parameters, created_at, updated_at
)
values (:name, :description, :job::jsonb, :parameters::jsonb, :now, :now)
on conflict (name) do update
set description = excluded.description,
    job = excluded.job,
    parameters = excluded.parameters,
    version = t.version + 1,
    updated_at = excluded.updated_at
returning t.name, t.description, t.job, t.parameters, t.version, t.created_at, t.updated_at;

-- name: by_name
select t.name, t.description, t.job, t.parameters, t.version, t.created_at, t.updated_at
from evenbeat.template as t
where t.name = :name;

-- name: all
select t.name, t.description, t.job, t.parameters, t.version, t.created_at, t.updated_at
from evenbeat.template as t
order by t.name
limit :limit;

-- name: delete
delete from evenbeat.template
where template.name = :name;
