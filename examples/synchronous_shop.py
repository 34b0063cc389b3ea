"""A program without await, as one writes with Django or Flask: a WSGI application and its worker.

python synchronous_shop.py serve     answers requests, in threads
python synchronous_shop.py work      runs the jobs (so does EVENBEAT_APP=synchronous_shop:eb
                                     evenbeat worker)
"""

import json
import sys
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIServer, make_server

from evenbeat import Evenbeat, Portal

eb = Evenbeat()
# One for the whole program: safe in any thread, opened by the first call, closed at the end.
scheduler = Portal(eb)


@eb.function
def send_mail(to: str, text: str) -> str:
    return f"sent {len(text)} characters to {to}"


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """POST /mails/somebody adds a job; GET /jobs says how many there are of each state."""
    where, _, who = environ["PATH_INFO"].strip("/").partition("/")
    if where == "mails":
        job = scheduler.enqueue(send_mail, {"to": who, "text": "Hello!"})
        answer: object = {"job": str(job.uid)}
    else:
        counts = scheduler.listing.status_counts()
        answer = {state.value: count for state, count in counts.items()}
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(answer).encode()]


class ThreadedServer(ThreadingMixIn, WSGIServer):
    daemon_threads = True


def serve() -> None:
    with make_server("127.0.0.1", 0, application, server_class=ThreadedServer) as server:
        print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve"]:
            serve()
        case ["work"]:
            eb.run()
        case _:
            sys.exit(__doc__)
