"""Evenbeat: a job scheduler on PostgreSQL that keeps the load even and every job on its beat.

These names are the public interface of the package. Each is imported at its first use, so that
`import evenbeat` costs nothing and no lower layer imports a higher one. `__init__.pyi` has their
types.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "Evenbeat": "evenbeat.app",
    "Portal": "evenbeat.sync",
    "RunContext": "evenbeat.core.runs.handler",
    "Done": "evenbeat.core.runs.outcome",
    "Failed": "evenbeat.core.runs.outcome",
    "Snoozed": "evenbeat.core.runs.outcome",
    "Cancelled": "evenbeat.core.runs.outcome",
    "define": "evenbeat.core.jobs.definition",
    "Definition": "evenbeat.core.jobs.model",
    "Policy": "evenbeat.core.jobs.model",
    "Job": "evenbeat.core.jobs.model",
    "Run": "evenbeat.core.jobs.model",
    "State": "evenbeat.core.jobs.model",
    "RunState": "evenbeat.core.jobs.model",
    "Cause": "evenbeat.core.jobs.model",
    "Filter": "evenbeat.core.jobs.filters",
    "Action": "evenbeat.core.jobs.lifecycle",
    "EvenbeatError": "evenbeat.core.errors",
    "InvalidInput": "evenbeat.core.errors",
    "NotFound": "evenbeat.core.errors",
    "Conflict": "evenbeat.core.errors",
    "RunStopped": "evenbeat.core.errors",
    "StoreUnavailable": "evenbeat.core.errors",
}

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
