-- fragment: shown
    template.name, template.description, template.job, template.parameters, template.version,
    template.created_at, template.updated_at

-- name: make
-- No row is returned if there is a template of this name. The caller then locks it before it changes
-- it, so that the audit shows what it was before.
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
