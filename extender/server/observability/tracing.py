"""A span for each call, for OpenTelemetry: what was asked, what was answered, and how long that took.

The packages come with the extra `otel` and are imported only where an endpoint is configured. Spans are exported by a
thread of their own; those that it cannot keep up with are dropped.

Rule: a span is made of what is known anyway, once a call is answered. No call waits for it, and none fails because of
it.
"""

import logging
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from extender.errors import ConfigError
from extender.version import __version__

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor

log = logging.getLogger(__name__)

SERVICE = "kube-scheduler-extender"

EXPORT_SECONDS = 5
"""How long one export may take."""

STOP_SECONDS = 3.0
"""How long what waits may take to be exported at the end."""

MISSING = (
    "tracing.endpoint: the packages for OpenTelemetry are not installed: pip install 'kube-scheduler-extender[otel]'"
)

Value = str | int | float | bool


class Tracing:
    """Where spans go. `stop` at the end."""

    def __init__(self, processor: "SpanProcessor") -> None:
        """ConfigError without the packages; `processor` hands the spans on."""
        try:
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.trace import SpanKind, Status, StatusCode
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError as error:
            raise ConfigError(MISSING) from error
        resource = Resource.create({"service.name": SERVICE, "service.version": __version__})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("extender", __version__)
        self._propagator = TraceContextTextMapPropagator()
        self._server = SpanKind.SERVER
        self._error = Status(StatusCode.ERROR)

    def note(
        self, name: str, seconds: float, attributes: Mapping[str, Value], *, parent: str | None, is_error: bool
    ) -> None:
        """A call was answered just now, after so long; `parent`: its `traceparent`, as it came."""
        try:
            ended = time.time_ns()
            context = None if parent is None else self._propagator.extract({"traceparent": parent})
            span = self._tracer.start_span(
                name,
                context,
                kind=self._server,
                attributes=dict(attributes),
                start_time=ended - round(seconds * 1e9),
            )
            if is_error:
                span.set_status(self._error)
            span.end(ended)
        except Exception:
            log.exception("tracing: no span for %s", name)

    def stop(self) -> None:
        """What waits is exported, if that does not take too long."""
        thread = threading.Thread(target=self._provider.shutdown, name="tracing-stop", daemon=True)
        thread.start()
        thread.join(STOP_SECONDS)
        if thread.is_alive():
            log.warning("tracing: the last spans were not exported in time")


def start(endpoint: str | None) -> Tracing | None:
    """Spans to that endpoint, OTLP over HTTP; None: there are none. ConfigError if that cannot be done."""
    if endpoint is None:
        return None
    if urlsplit(endpoint).scheme not in ("http", "https") or not urlsplit(endpoint).hostname:
        raise ConfigError("tracing.endpoint: must be a URL such as http://localhost:4318/v1/traces")
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise ConfigError(MISSING) from error
    return Tracing(BatchSpanProcessor(OTLPSpanExporter(endpoint, timeout=EXPORT_SECONDS)))
