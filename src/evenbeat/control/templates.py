"""Templates as people handle them: keep a job with blanks, and make jobs of it."""

from evenbeat.core.templates import Template
from evenbeat.store import templates
from evenbeat.store.database import Database


class Templates:
    """The templates of one database. A job that was made of one does not follow its changes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, name: str) -> Template:
        return await templates.by_name(self._database, name)

    async def all(self) -> list[Template]:
        return await templates.all_of_them(self._database)

    async def put(self, template: Template) -> Template:
        """Make it, or change the one of this name."""
        return await templates.put(self._database, template)

    async def delete(self, name: str) -> None:
        await templates.delete(self._database, name)
