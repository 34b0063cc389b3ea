"""A pgbouncer in transaction mode before a database."""

import asyncio
import contextlib
import os
import subprocess
from collections.abc import AsyncGenerator
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support.programs import program
from tests.support.waiting import eventually

# Few server connections for many clients: code that relies on its own session soon fails.
CONFIG = """
[databases]
{database} = host={host} port={port} user={user} password={password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own_port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
max_client_conn = 500
server_idle_timeout = 5
{more}
"""


class Pooler:
    """One pgbouncer, until `stop`."""

    def __init__(self, upstream: str, path: Path, own_port: int, more: str = "") -> None:
        parts = urlsplit(upstream)
        database = parts.path.strip("/")
        self.url = f"postgresql://{parts.username}@127.0.0.1:{own_port}/{database}"
        self._port = own_port
        config = path / f"pgbouncer-{own_port}.ini"
        text = CONFIG.format(
            database=database,
            host=parts.hostname,
            port=parts.port,
            user=parts.username,
            password=unquote(parts.password or ""),
            own_port=own_port,
            more=more,
        )
        config.write_text(text)
        # pgbouncer refuses to run as root.
        as_user = ("-u", "nobody") if os.geteuid() == 0 else ()
        self.log = path / f"pgbouncer-{own_port}.log"
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(
                [program("pgbouncer", "pgbouncer"), *as_user, config],
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    async def ready(self) -> None:
        await eventually(self._answers, f"a pooler; it says:\n{self.log.read_text()}")

    async def _answers(self) -> bool:
        assert self._process.poll() is None, self.log.read_text()
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            return False
        writer.close()
        return True

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


def over_tcp(url: str) -> str:
    """The same server by its loopback port, which it has to have."""
    parts = urlsplit(url)
    auth, [port] = parts.netloc.rpartition("@")[0], parse_qs(parts.query)["port"]
    return f"postgresql://{auth}@127.0.0.1:{port}{parts.path}"


@contextlib.asynccontextmanager
async def pooler(
    upstream: str, path: Path, own_port: int, more: str = ""
) -> AsyncGenerator[Pooler]:
    """A pooler before the database of this URL, which has to have a host and a port."""
    made = Pooler(upstream, path, own_port, more)
    try:
        await made.ready()
        yield made
    finally:
        made.stop()
