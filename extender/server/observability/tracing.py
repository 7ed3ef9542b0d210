"""OpenTelemetry tracing: one span per call, with its duration and the attributes of request and answer.

The packages come with the extra `otel` and are imported only if an endpoint is configured. A thread exports the spans;
spans that do not fit into its queue are dropped.

Rule: a span is created after the answer, from values that the call has computed anyway. No call waits for its span or
fails because of it.
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

SERVICE_NAME = "kube-scheduler-extender"

EXPORT_TIMEOUT_SECONDS = 5
"""Time limit of one export."""

STOP_TIMEOUT_SECONDS = 2.5
"""Time limit for exporting the queued spans at shutdown."""

MISSING_PACKAGES = (
    "tracing.endpoint: the packages for OpenTelemetry are not installed: pip install 'kube-scheduler-extender[otel]'"
)

AttributeValue = str | int | float | bool


class Tracing:
    """The tracer provider and its exporter; call `stop` at shutdown."""

    def __init__(self, processor: "SpanProcessor") -> None:
        """`processor`: exports the spans. ConfigError if the packages are not installed."""
        try:
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.trace import SpanKind, Status, StatusCode
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError as error:
            raise ConfigError(MISSING_PACKAGES) from error
        resource = Resource.create({"service.name": SERVICE_NAME, "service.version": __version__})
        # `stop` has a time limit; the provider's own exit handler would wait for a collector that may be gone.
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("extender", __version__)
        self._propagator = TraceContextTextMapPropagator()
        self._server = SpanKind.SERVER
        self._error = Status(StatusCode.ERROR)

    def record_span(
        self, name: str, seconds: float, attributes: Mapping[str, AttributeValue], *, parent: str | None, is_error: bool
    ) -> None:
        """Record the span of a call that has just ended after `seconds`; `parent`: its `traceparent` header."""
        try:
            ended = time.time_ns()
            context = None if parent is None else self._propagator.extract({"traceparent": parent})
            span = self._tracer.start_span(
                name, context, kind=self._server, attributes=dict(attributes), start_time=ended - round(seconds * 1e9)
            )
            if is_error:
                span.set_status(self._error)
            span.end(ended)
        except Exception:
            log.exception("tracing: failed to record the span of %s", name)

    def stop(self) -> None:
        """Export the queued spans, for at most STOP_TIMEOUT_SECONDS."""
        # In a thread, because `shutdown` has no time limit.
        thread = threading.Thread(target=self._provider.shutdown, name="tracing-stop", daemon=True)
        thread.start()
        thread.join(STOP_TIMEOUT_SECONDS)
        if thread.is_alive():
            log.warning("tracing: shutdown timed out: the last spans were not exported")


def start_tracing(endpoint: str | None) -> Tracing | None:
    """Start exporting to the endpoint (OTLP over HTTP), or return None without one; ConfigError if it is invalid."""
    if endpoint is None:
        return None
    if urlsplit(endpoint).scheme not in ("http", "https") or not urlsplit(endpoint).hostname:
        raise ConfigError("tracing.endpoint: must be a URL such as http://localhost:4318/v1/traces")
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise ConfigError(MISSING_PACKAGES) from error
    return Tracing(BatchSpanProcessor(OTLPSpanExporter(endpoint, timeout=EXPORT_TIMEOUT_SECONDS)))
