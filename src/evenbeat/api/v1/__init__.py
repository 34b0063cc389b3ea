"""/api/v1: the REST API, one file of routes per noun."""

from evenbeat.api.v1 import (
    actions,
    balance,
    dead_letters,
    executions,
    groups,
    jobs,
    operations,
    schedules,
    statistics,
    templates,
    tokens,
)

# Fixed addresses such as /jobs/actions come before those with an id in the same place.
ROUTERS = (
    actions.router,
    jobs.router,
    executions.router,
    statistics.router,
    balance.router,
    schedules.router,
    groups.router,
    dead_letters.router,
    templates.router,
    operations.router,
    tokens.router,
)
