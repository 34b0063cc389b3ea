"""/api/v1: the REST API, one file of routes per noun."""

from evenbeat.api.v1.balance import balance
from evenbeat.api.v1.jobs import actions, groups, jobs, schedules, templates
from evenbeat.api.v1.ops import operations, statistics, tokens
from evenbeat.api.v1.runs import dead_letters, executions

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
