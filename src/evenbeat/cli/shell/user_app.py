"""Finds the user's app, whose handlers a process of ours is to serve."""

import importlib
import re
import sys
from pathlib import Path

from evenbeat.app import Evenbeat
from evenbeat.config import Settings
from evenbeat.core.errors import InvalidSettings

PLACE = re.compile(r"(?P<module>\w+(?:\.\w+)*):(?P<name>\w+)")


def find_app(settings: Settings) -> Evenbeat:
    """The app that `settings.app` names, with these settings; or one with the built-in handlers."""
    if settings.app is None:
        return Evenbeat(settings)
    place = PLACE.fullmatch(settings.app)
    if place is None:
        raise InvalidSettings("app", f"write package.module:name, not {settings.app!r}")
    # As `python -m` does it: the app is most often in the directory one stands in.
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    found = load(place["module"], place["name"])
    found.configure(settings)
    return found


def load(module: str, name: str) -> Evenbeat:
    """What the module itself raises is its author's to see, with its stack trace."""
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ModuleNotFoundError as error:
        # Another name: the module is there, and imports what is not.
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
