"""The built-in handlers, one file per kind."""

from evenbeat.config import Settings
from evenbeat.core.runs.handler import Handler
from evenbeat.core.runs.registry import Registry
from evenbeat.handlers.crawl import Crawl
from evenbeat.handlers.echo import Echo
from evenbeat.handlers.function import Function
from evenbeat.handlers.http.addresses import Addresses
from evenbeat.handlers.http.handler import Http
from evenbeat.handlers.http.outbound import OutboundClient
from evenbeat.handlers.program.handler import Program
from evenbeat.handlers.sql_function import SqlFunction


def built_in(settings: Settings, functions: Function, sql_functions: SqlFunction) -> Registry:
    """The kinds that every node serves, and those that are only known.

    `function` is served once a function is registered. `sql_function` is served by nodes that have
    a login for it, and `program` by nodes whose setting `programs` is on.
    """
    addresses = Addresses.of_settings(
        settings.allowed_networks, allows_private=settings.allow_private_networks
    )
    served: list[Handler] = [Echo(), Http(OutboundClient(addresses))]
    programs = Program(settings.stop_grace)
    if settings.programs == "on":
        served.append(programs)
    return Registry(served, known=[Crawl(), programs, functions, sql_functions])
