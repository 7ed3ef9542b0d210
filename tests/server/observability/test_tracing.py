"""A span for each call, where that is wanted; and nothing at all where it is not."""

import asyncio
import builtins
import copy
import dataclasses
import http.server
import subprocess
import sys
import threading
import time

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from extender.cluster.cache.cache import ClusterCache
from extender.errors import ConfigError
from extender.server.app import create_app
from extender.server.observability import tracing
from extender.server.observability.tracing import Tracing
from tests.server.conftest import BODIES, URGENT, client_for, configuration, filled_cache, preempt_body

pytestmark = pytest.mark.anyio

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
def spans():
    return InMemorySpanExporter()


@pytest.fixture
def traced(spans):
    """Makes an application with spans; a store may be given."""
    made = []

    def make(cache=None, **sections):
        app = create_app(cache or filled_cache(), configuration(**sections))
        made.append(Tracing(SimpleSpanProcessor(spans)))
        app.server_context = dataclasses.replace(app.server_context, tracing=made[-1])
        return app

    yield make
    for one in made:
        one.stop()


async def post(app, path="/preempt", body=None, **headers):
    async with client_for(app) as client:
        return await client.post(path, content=BODIES[path] if body is None else body, headers=headers)


async def test_a_call_is_a_span_that_says_what_was_asked_and_answered(traced, spans):
    before = time.time_ns()
    response = await post(traced())
    (span,) = spans.get_finished_spans()
    assert (span.name, span.kind, span.parent) == ("POST /preempt", SpanKind.SERVER, None)
    assert before <= span.start_time < span.end_time <= time.time_ns()
    assert dict(span.attributes) == {
        "http.request.method": "POST",
        "http.route": "/preempt",
        "http.response.status_code": 200,
        "extender.verb": "preempt",
        "extender.decision": response.headers["X-Extender-Decision"],
        "extender.mode": "answered",
        "extender.nodes.sent": 2,
        "extender.nodes.kept": 1,
        "k8s.namespace.name": "shop",
        "k8s.pod.name": "urgent",
        "extender.pod.scheduler_name": "default-scheduler",
    }
    assert span.resource.attributes["service.name"] == "kube-scheduler-extender"
    assert span.status.status_code == StatusCode.UNSET


async def test_a_long_scheduler_name_is_shortened(traced, spans):
    named = copy.deepcopy(URGENT)
    named["spec"]["schedulerName"] = "x" * 10_000
    await post(traced(), body=preempt_body(named))
    (span,) = spans.get_finished_spans()
    assert span.attributes["extender.pod.scheduler_name"] == "x" * 253 + "…"


async def test_it_belongs_to_the_trace_of_who_calls(traced, spans):
    await post(traced(), traceparent=f"00-{TRACE}-{PARENT}-01")
    (span,) = spans.get_finished_spans()
    assert f"{span.context.trace_id:032x}" == TRACE
    assert f"{span.parent.span_id:016x}" == PARENT


@pytest.mark.parametrize("header", ["", "nonsense", "00-0-0-01", "ff" * 9000])
async def test_a_traceparent_that_is_none_begins_a_trace(traced, spans, header):
    assert (await post(traced(), traceparent=header)).status_code == 200
    (span,) = spans.get_finished_spans()
    assert span.parent is None


@pytest.mark.parametrize(
    ("path", "kept"), [("/filter", 1), ("/prioritize", 3), ("/preempt", 1)], ids=["filter", "prioritize", "preempt"]
)
async def test_every_verb_says_how_many_nodes_it_keeps(traced, spans, path, kept):
    await post(traced(), path)
    (span,) = spans.get_finished_spans()
    assert span.attributes["extender.nodes.kept"] == kept


async def test_a_failure_is_an_error_also_where_the_answer_is_not(traced, spans):
    app = traced(ClusterCache())
    await post(app, "/prioritize")
    (span,) = spans.get_finished_spans()
    assert (span.attributes["http.response.status_code"], span.status.status_code) == (200, StatusCode.ERROR)


async def test_a_refused_request_has_a_span_without_a_decision(traced, spans):
    await post(traced(), body=b"{")
    (span,) = spans.get_finished_spans()
    assert span.attributes["http.response.status_code"] == 400
    assert "extender.decision" not in span.attributes


class Broken(SimpleSpanProcessor):
    def on_end(self, span):
        raise RuntimeError("a bug")


async def test_a_bug_in_tracing_costs_no_answer(caplog):
    app = create_app(filled_cache(), configuration())
    tracer = Tracing(Broken(InMemorySpanExporter()))
    app.server_context = dataclasses.replace(app.server_context, tracing=tracer)
    assert (await post(app)).status_code == 200
    assert [record.getMessage() for record in caplog.records] == ["tracing: failed to record the span of POST /preempt"]
    tracer.stop()


# --- exported ---------------------------------------------------------------------------------------------------------


async def test_spans_are_exported_to_the_endpoint_and_the_last_ones_at_the_end():
    received, came = [], threading.Event()

    class Collector(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            received.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            came.set()
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        endpoint = f"http://127.0.0.1:{server.server_port}/v1/traces"
        app = create_app(filled_cache(), configuration(tracing={"endpoint": endpoint}, audit={"enabled": False}))
        async with app.lifespan():
            assert (await post(app)).status_code == 200
        assert await asyncio.to_thread(came.wait, 5.0)
        server.shutdown()
        thread.join()
    ((path, body),) = received
    assert path == "/v1/traces"
    assert b"POST /preempt" in body


async def test_an_endpoint_that_is_not_there_holds_up_no_call_and_no_end(monkeypatch):
    monkeypatch.setattr(tracing, "STOP_TIMEOUT_SECONDS", 0.2)
    monkeypatch.setattr(tracing, "EXPORT_TIMEOUT_SECONDS", 6)
    sections = {"tracing": {"endpoint": "http://127.0.0.1:9/v1/traces"}, "audit": {"enabled": False}}
    app = create_app(filled_cache(), configuration(**sections))
    async with app.lifespan():
        assert (await post(app)).status_code == 200
    (stopping,) = [thread for thread in threading.enumerate() if thread.name == "tracing-stop"]
    stopping.join()  # so that it logs nothing into another test


@pytest.mark.parametrize("endpoint", ["localhost:4318", "ftp://host/x", "http:///v1/traces"])
def test_an_endpoint_that_is_no_url_is_an_error_of_the_configuration(endpoint):
    with pytest.raises(ConfigError, match=r"tracing.endpoint: must be a URL such as"):
        tracing.start_tracing(endpoint)


# --- off, or not there ------------------------------------------------------------------------------------------------


def test_without_the_packages_the_error_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *more):
        if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter")):
            raise ModuleNotFoundError(f"No module named {name!r}")
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r"pip install 'kube-scheduler-extender\[otel\]'"):
        tracing.start_tracing("http://localhost:4318/v1/traces")


def test_nothing_is_imported_where_it_is_off():
    """FastAPI imports the package opentelemetry-api by itself; that is none of the extra's."""
    code = (
        "import sys; from extender.server.app import create_app; from extender.config import Configuration;"
        "from extender.cluster.cache.cache import ClusterCache; create_app(ClusterCache(), Configuration());"
        "print([name for name in sys.modules if name.startswith(('opentelemetry.sdk', 'opentelemetry.exporter'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
