"""Finds the user's app, whose handlers a node serves."""

import importlib
import re
import sys
from pathlib import Path

from evenbeat.app import Evenbeat
from evenbeat.config import Settings
from evenbeat.core.errors import InvalidSettings

APP_NAME = re.compile(r"(?P<module>\w+(?:\.\w+)*):(?P<name>\w+)")


def find_app(settings: Settings) -> Evenbeat:
    """The app that `settings.app` names, with these settings; else one with built-in handlers."""
    if settings.app is None:
        return Evenbeat(settings)
    match = APP_NAME.fullmatch(settings.app)
    if match is None:
        raise InvalidSettings("app", f"write package.module:name, not {settings.app!r}")
    # As `python -m` does: the app is most often in the working directory.
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    found = import_app(match["module"], match["name"])
    found.configure(settings)
    return found


def import_app(module: str, name: str) -> Evenbeat:
    """Errors of the module itself are not caught: its author needs the stack trace."""
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ModuleNotFoundError as error:
        # With another name the module exists, but imports one that does not.
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise InvalidSettings(
            "app", f"there is no module {error.name!r} in {Path.cwd()} or among the installed ones"
        ) from None
    if found is None:
        raise InvalidSettings("app", f"the module {module!r} has no {name!r}")
    if not isinstance(found, Evenbeat):
        raise InvalidSettings(
            "app", f"{module}:{name} is of type {type(found).__name__}, and not an Evenbeat"
        )
    return found
