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
    """What every node serves, and the kinds that are known besides.

    `function` is served from the first registered function on: until then its jobs would only
    find that there is none. `sql_function` is served by nodes that have a login for it, and
    `program` by those that are told to.
    """
    addresses = Addresses.of_settings(
        settings.allowed_networks, allows_private=settings.allow_private_networks
    )
    served: list[Handler] = [Echo(), Http(OutboundClient(addresses))]
    programs = Program(settings.stop_grace)
    if settings.programs == "on":
        served.append(programs)
    return Registry(served, known=[Crawl(), programs, functions, sql_functions])
