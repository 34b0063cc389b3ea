"""/tasks: the API for clients of the tasks service, in their words, with the probes they use."""

from evenbeat.api.tasks import actuator, tasks

ROUTERS = (tasks.router, actuator.router)
