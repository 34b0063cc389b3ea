"""Traces: a span for every job that is added and for every run, where OpenTelemetry is set up.

Processes of ours need the extra `otel` and an OTLP endpoint in the OTEL_* variables. In a user's
own process, the tracer provider of that process is used. Without a provider, a job costs one check.
"""

import contextlib
import os
from collections.abc import Awaitable, Callable, Generator
from functools import wraps
from importlib.util import find_spec
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from evenbeat.core.jobs.model import Claimed, Definition, Job
from evenbeat.core.runs.outcome import Failed, Outcome
from evenbeat.core.runs.settle import Recorded

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
EXTRA = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")

Owner = TypeVar("Owner")
Reported = TypeVar("Reported", bound=Outcome | Recorded)
More = ParamSpec("More")
Sender = Callable[Concatenate[Owner, Definition, More], Awaitable[Job]]


class Provider(Protocol):
    """What a caller may do with a provider of ours."""

    def shutdown(self) -> None: ...


def configure() -> Provider | None:
    """Send traces as the OTEL_* variables say; None if they turn it off or the extra is missing.

    `shutdown` sends the remaining spans.
    """
    is_off = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    has_exporter = os.environ.get("OTEL_TRACES_EXPORTER", "otlp") == "otlp"
    has_endpoint = any(os.environ.get(name) for name in ENDPOINTS)
    if is_off or not has_exporter or not has_endpoint or not is_installed():
        return None
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create({"service.name": "evenbeat"}).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    return provider


def is_installed() -> bool:
    """Whether every package of the extra is installed."""
    try:
        return all(find_spec(name) is not None for name in EXTRA)
    except ImportError:
        return False


def is_on() -> bool:
    """Whether a tracer provider has been set."""
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


def trace_sending(add: Sender[Owner, More]) -> Sender[Owner, More]:
    """Decorates a function that adds a job: the call becomes a span within the caller's span."""

    @wraps(add)
    async def traced(
        owner: Owner, definition: Definition, *rest: More.args, **more: More.kwargs
    ) -> Job:
        if not is_on():
            return await add(owner, definition, *rest, **more)
        given = messaging_attributes("send", definition.kind)
        with tracer().start_as_current_span(
            f"send {definition.kind}", kind=SpanKind.PRODUCER, attributes=given
        ) as span:
            job = await add(owner, definition, *rest, **more)
            span.set_attribute("messaging.message.id", str(job.uid))
            return job

    return traced


class RunSpan:
    """The span of a current run."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def ended(self, reported: Reported) -> Reported:
        """Add the outcome to the span, and return what was reported."""
        outcome = reported.outcome if isinstance(reported, Recorded) else reported
        self._span.set_attribute("evenbeat.outcome", type(outcome).__name__.lower())
        if isinstance(outcome, Failed):
            self._span.set_attribute("error.type", outcome.error_type or str(outcome.error_class))
            self._span.set_status(Status(StatusCode.ERROR, outcome.error))
        return reported


@contextlib.contextmanager
def run_span(claimed: Claimed) -> Generator[RunSpan]:
    """A run as a span; the handler's own spans lie within it.

    It begins a trace of its own: a job is added once and runs thousands of times.
    """
    run, kind = claimed.run, claimed.definition.kind
    given: dict[str, Any] = messaging_attributes("process", kind) | {
        "messaging.message.id": str(claimed.uid),
        "evenbeat.run.number": run.number,
        "evenbeat.run.attempt": run.attempt,
        "evenbeat.run.cause": run.cause.value,
    }
    if run.beat_at is not None:
        given["evenbeat.run.beat_at"] = run.beat_at.isoformat()
    with tracer().start_as_current_span(
        f"process {kind}", context=Context(), kind=SpanKind.CONSUMER, attributes=given
    ) as span:
        yield RunSpan(span)


def messaging_attributes(operation: str, kind: str) -> dict[str, Any]:
    """The attributes that every messaging system gives its spans."""
    return {
        "messaging.system": "evenbeat",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": kind,
    }


def tracer() -> trace.Tracer:
    return trace.get_tracer("evenbeat")
