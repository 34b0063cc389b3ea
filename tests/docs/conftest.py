"""A place that has `./dev`, for pages that say what to type."""

import os
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.forked_processes import process_forker
from tests.support.shell import LONGEST

# `./dev evenbeat …`, whose process is a forked one, with the streams that the shell gave.
DEV = """#!{python} -SE
import socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asked:
    asked.connect("asked")
    socket.send_fds(asked, ["\\0".join(sys.argv[2:]).encode()], [0, 1, 2])
    sys.exit(int(asked.recv(100)))
"""


@pytest.fixture
def checkout(environ: dict[str, str], tmp_path: Path) -> Iterator[Path]:
    """A place that has `./dev`."""
    (tmp_path / "dev").write_text(DEV.format(python=sys.executable))
    (tmp_path / "dev").chmod(0o700)
    heard = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def serve() -> None:
        while True:
            try:
                asked, _ = heard.accept()
            except OSError:
                return
            with asked:
                words, streams, _, _ = socket.recv_fds(asked, 1 << 16, 3)
                child = process_forker().spawn(
                    words.decode().split("\0"), environ=environ, cwd=tmp_path, streams=streams
                )
                for each in streams:
                    os.close(each)
                asked.send(str(child.wait(LONGEST)).encode())

    heard.bind(str(tmp_path / "asked"))
    heard.listen()
    serving = threading.Thread(target=serve)
    serving.start()
    yield tmp_path
    heard.shutdown(socket.SHUT_RDWR)
    heard.close()
    serving.join()
