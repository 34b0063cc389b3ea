"""The built-in handlers, one file per kind."""

from evenbeat.config import Settings
from evenbeat.core.registry import Registry
from evenbeat.handlers.addresses import Addresses
from evenbeat.handlers.crawl import Crawl
from evenbeat.handlers.echo import Echo
from evenbeat.handlers.function import Function
from evenbeat.handlers.http import Http
from evenbeat.handlers.outbound import Outbound
from evenbeat.handlers.program import Program
from evenbeat.handlers.sql_function import SqlFunction


def built_in(settings: Settings, functions: Function, sql_functions: SqlFunction) -> Registry:
    """What every node serves, and the kinds that are known besides.

    `function` is served from the first registered function on: until then its jobs would only
    find that there is none. `sql_function` is served by nodes that have a login for it.
    """
    addresses = Addresses.of_settings(
        settings.allowed_networks, allows_private=settings.allow_private_networks
    )
    return Registry(
        [Echo(), Http(Outbound(addresses))], known=[Crawl(), Program(), functions, sql_functions]
    )
