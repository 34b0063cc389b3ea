"""Spans of jobs and runs, as a collector receives them from real processes."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from evenbeat.config import Settings
from evenbeat.store.database.pool import Database
from tests.engine.node_runner import NodeRunner
from tests.support.processes import Api, Process
from tests.support.waiting import eventually

PROGRAM = Path(__file__).with_name("programs") / "node.py"
KINDS = {2: "server", 4: "producer", 5: "consumer"}
ERROR = 2


class Collector:
    """Receives spans by OTLP over HTTP."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.resources: list[dict[str, Any]] = []
        collector = self

        class Receiver(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                collector.take(self.rfile.read(int(self.headers["content-length"])))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Log nothing into the output of the tests."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def environ(self) -> dict[str, str]:
        host, port = self.server.server_address[:2]
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{host}:{port}",
            "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
            "OTEL_SERVICE_NAME": "night shift",
        }

    def take(self, body: bytes) -> None:
        for given in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resources.append(attributes(given.resource))
            for scope in given.scope_spans:
                self.spans.extend(scope.spans)

    async def span(self, name: str) -> Any:
        def look() -> Any:
            return next((span for span in self.spans if span.name == name), None)

        return await eventually(look, f"a span {name!r}")


def attributes(thing: Any) -> dict[str, Any]:
    return {each.key: each.value.string_value or each.value.int_value for each in thing.attributes}


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.server.shutdown()
    made.server.server_close()


async def test_adding_a_job_and_running_it_are_spans_that_name_the_job(
    start: Callable[..., Process], client: Callable[..., Api], collector: Collector
) -> None:
    up = start("up", **collector.environ)
    job = await client(await up.ready()).create(kind="echo")
    sent, processed = await collector.span("send echo"), await collector.span("process echo")
    assert (KINDS[sent.kind], KINDS[processed.kind]) == ("producer", "consumer")
    for span, operation in ((sent, "send"), (processed, "process")):
        found = attributes(span)
        assert found["messaging.system"] == "evenbeat"
        assert found["messaging.destination.name"] == "echo"
        assert found["messaging.message.id"] == job["id"]
        assert found["messaging.operation.name"] == operation
        assert found["messaging.operation.type"] == operation
    found = attributes(processed)
    assert (found["evenbeat.run.cause"], found["evenbeat.run.attempt"]) == ("schedule", 1)
    assert found["evenbeat.outcome"] == "done"
    request = await collector.span("POST /api/v1/jobs")
    assert sent.trace_id == request.trace_id, "within what the client asked for"
    assert sent.parent_span_id != b""
    assert processed.parent_span_id == b"", "a run begins a trace of its own"
    assert processed.trace_id != sent.trace_id
    assert collector.resources[0]["service.name"] == "night shift"


async def test_a_run_that_fails_is_a_span_with_its_error(
    environ: dict[str, str],
    tmp_path: Path,
    database: Database,
    settings: Settings,
    collector: Collector,
) -> None:
    program = (sys.executable, PROGRAM)
    node = Process("node", environ=environ | collector.environ, cwd=tmp_path, program=program)
    try:
        node_runner = NodeRunner(database, settings)
        await node_runner.add(
            kind="crawl", payload={"error": "connection timeout"}, policy={"max_attempts": 1}
        )
        failed = await collector.span("process crawl")
        assert (failed.status.code, failed.status.message) == (ERROR, "connection timeout")
        assert attributes(failed)["error.type"] == "handler_error"
        assert await node.stop() == 0
    finally:
        node.kill()


CONFIGURE = """
import sys
for name in sys.argv[1:]:
    sys.modules[name] = None
from evenbeat.observe import traces
print(traces.configure() is not None, traces.is_on())
"""
ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}


@pytest.mark.parametrize(
    ("missing", "environ", "expected"),
    [
        ([], ENDPOINT, "True True"),
        (["opentelemetry.sdk"], ENDPOINT, "False False"),
        (["opentelemetry.exporter"], ENDPOINT, "False False"),
        ([], {}, "False False"),
        ([], ENDPOINT | {"OTEL_SDK_DISABLED": "true"}, "False False"),
        ([], ENDPOINT | {"OTEL_TRACES_EXPORTER": "none"}, "False False"),
    ],
)
def test_traces_need_the_extra_and_an_endpoint(
    missing: list[str], environ: dict[str, str], expected: str
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", CONFIGURE, *missing],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert ended.stdout.strip() == expected
