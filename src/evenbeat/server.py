"""The server: builds the site of all HTTP interfaces, and serves it until it is stopped."""

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Callable, Generator
from importlib.metadata import version
from typing import Any

import uvicorn
from fastapi import FastAPI

from evenbeat.api import tasks, v1
from evenbeat.app import Evenbeat
from evenbeat.config import Settings
from evenbeat.core.errors import InvalidSettings
from evenbeat.core.ops.access import Role
from evenbeat.web import metrics, openapi, probes, problems
from evenbeat.web.auth import Authenticator, needs
from evenbeat.web.middleware import ResponseMiddleware
from evenbeat.web.protocol import HttpConnection
from evenbeat.web.request_limits import BodyLimit
from evenbeat.web.request_metrics import RequestMetrics

# Seconds. Requests are answered in milliseconds; one that hangs must not delay the stop.
SHUTDOWN_TIMEOUT = 5


def build_site(app: Evenbeat) -> FastAPI:
    """The site of one app, which must be open before the first request."""
    site = FastAPI(
        title="Evenbeat",
        version=version("evenbeat"),
        description="A job scheduler on PostgreSQL.",
        # Served below, behind sign-in. No /docs pages: they load scripts from other sites.
        openapi_url=None,
        # A redirect would repeat the Host header, which the client chooses.
        redirect_slashes=False,
    )
    site.state.evenbeat = app
    site.state.authenticator = Authenticator(app)
    problems.install(site)
    site.add_middleware(BodyLimit)
    site.add_middleware(RequestMetrics, metrics=app.metrics)
    # Added last, so that it is the outermost.
    site.add_middleware(ResponseMiddleware)
    # Starlette tries routes in this order: the busiest come first.
    for router in (*tasks.ROUTERS, probes.router, metrics.router, *v1.ROUTERS):
        site.include_router(router)
    openapi.install(site)
    site.add_api_route(
        "/openapi.json", site.openapi, include_in_schema=False, dependencies=[needs(Role.VIEWER)]
    )
    return site


def bind(settings: Settings, setting: str = "port") -> socket.socket:
    """Take the port before anything else starts, so that a busy port fails at once."""
    port: int = getattr(settings, setting)
    try:
        family, _, _, _, address = socket.getaddrinfo(
            settings.host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return listen(socket.socket(family, socket.SOCK_STREAM), address)
    except (socket.gaierror, UnicodeError):
        raise InvalidSettings("host", f"no such address: {settings.host!r}") from None
    except OSError as error:
        # The address belongs to another machine: the host is wrong, not the port.
        name = "host" if error.errno == errno.EADDRNOTAVAIL else setting
        where = f"{settings.host}:{port}"
        raise InvalidSettings(
            name,
            f"cannot listen on {where}: {error.strerror}; "
            f"set EVENBEAT_{name.upper()} to another one",
        ) from None


def listen(unbound: socket.socket, address: Any) -> socket.socket:
    try:
        unbound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        unbound.bind(address)
        unbound.listen(1024)
    except OSError:
        unbound.close()
        raise
    return unbound


class HttpServer(uvicorn.Server):
    """uvicorn without its signal handlers: the process handles signals itself."""

    def __init__(self, config: uvicorn.Config, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_started = on_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_started()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


async def serve(
    site: FastAPI,
    bound: socket.socket,
    stopping: asyncio.Event,
    on_started: Callable[[], None] = lambda: None,
) -> None:
    """Answer requests until `stopping` is set, then finish the current ones."""
    config = uvicorn.Config(
        site,
        http=HttpConnection,
        ws="none",
        log_config=None,
        access_log=False,
        # Name and version are shown to signed-in callers only.
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=SHUTDOWN_TIMEOUT,
    )
    server = HttpServer(config, on_started)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(server.serve(sockets=[bound]))
            await stopping.wait()
            server.should_exit = True
    except asyncio.CancelledError:
        # uvicorn would log an error for each request that is cut off here.
        logging.getLogger("uvicorn.error").disabled = True
        raise
