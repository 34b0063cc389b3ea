-- fragment: shown
    template.name, template.description, template.job, template.parameters, template.version,
    template.created_at, template.updated_at

-- name: make
-- Nothing comes back where there is one of this name: it is to be locked before it is changed,
-- so that the audit tells what it was.
insert into evenbeat.template (name, description, job, parameters, created_at, updated_at)
values (:name, :description, :job::jsonb, :parameters::jsonb, :now, :now)
on conflict (name) do nothing
returning
    :shown;

-- name: lock
select
    :shown
from evenbeat.template
where template.name = :name
for no key update;

-- name: change
update evenbeat.template
set description = :description,
    job = :job::jsonb,
    parameters = :parameters::jsonb,
    version = template.version + 1,
    updated_at = :now
where template.name = :name
returning
    :shown;

-- name: by_name
select
    :shown
from evenbeat.template
where template.name = :name;

-- name: list_templates
select
    :shown
from evenbeat.template
order by template.name
limit :limit;

-- name: delete
delete from evenbeat.template
where template.name = :name
returning
    :shown;
