"""The built-in handlers, one file per kind."""

from evenbeat.core.handler import Handler
from evenbeat.handlers.echo import Echo


def built_in() -> list[Handler]:
    return [Echo()]
