"""What people do with templates: store a job with parameters, read, change and delete it."""

from typing import Any

from evenbeat.core.errors import Conflict, NotFound
from evenbeat.core.jobs.templates import Template
from evenbeat.core.ops.audit import PYTHON, Actor, NewAuditEntry, find_differences
from evenbeat.core.suggestions import did_you_mean
from evenbeat.store.database.pool import Database
from evenbeat.store.jobs import templates
from evenbeat.store.ops import audit


class Templates:
    """The templates of one database. A change of a template does not change jobs made from it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, name: str) -> Template:
        try:
            return await templates.find_template(self._database, name)
        except NotFound as error:
            known = [each.name for each in await self.all()]
            raise NotFound(f"{error}{did_you_mean(name, known)}") from None

    async def all(self) -> list[Template]:
        return await templates.list_templates(self._database)

    async def put(self, template: Template, *, by: Actor = PYTHON) -> Template:
        """Create the template, or change the one of this name."""
        try:
            async with self._database.transaction() as session:
                before, after = None, await templates.insert_template(session, template)
                if after is None:
                    before = await templates.lock_template(session, template.name)
                    after = await templates.update_template(session, template)
                note = template_note("put_template", template.name, before, after)
                await audit.write_audit(session, [note], by=by)
        except NotFound:
            raise Conflict(f"the template {template.name!r} comes and goes; put it again") from None
        return after

    async def delete(self, name: str, *, by: Actor = PYTHON) -> None:
        """Delete the template. Jobs that were made from it stay."""
        async with self._database.transaction() as session:
            before = await templates.delete_template(session, name)
            note = template_note("delete_template", name, before, None)
            await audit.write_audit(session, [note], by=by)


def template_note(
    action: str, name: str, before: Template | None, after: Template | None
) -> NewAuditEntry:
    was, became = find_differences(template_facts(before), template_facts(after))
    return NewAuditEntry(action, was, {"template": name, **became})


def template_facts(template: Template | None) -> dict[str, Any]:
    """The facts about a template that the audit records."""
    if template is None:
        return {}
    return {
        "description": template.description,
        "job": template.job,
        "parameters": template.parameters,
    }
