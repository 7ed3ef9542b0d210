"""A small cluster behind the real application, called without a socket."""

import functools
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import httpx
import pytest
import uvicorn

from extender.cluster.cache.cache import ClusterCache
from extender.config import Configuration
from extender.server.admin.app import PUBLIC_PATHS, create_admin_app
from extender.server.app import create_app
from extender.server.context import ServerContext
from tests.builders import stored_cluster

NODES = ("worker-1", "worker-2", "worker-3")


def node(name, cpu="4", **spec):
    allocatable = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return {"kind": "Node", "metadata": {"name": name}, "spec": spec, "status": {"allocatable": allocatable}}


def pod(name, on="", cpu="1", priority=0, uid=None):
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "uid": uid or f"uid-{name}", "labels": {"app": name}},
        "spec": {
            "nodeName": on,
            "priority": priority,
            "containers": [{"name": "app", "resources": {"requests": {"cpu": cpu}}}],
        },
        "status": {"phase": "Running" if on else "Pending", "startTime": "2026-01-01T00:00:00Z" if on else None},
    }


CLUSTER = {
    "kind": "List",
    "items": [
        node("worker-1"),
        node("worker-2"),
        node("worker-3", unschedulable=True),
        pod("small", on="worker-1", cpu="1", priority=10),
        pod("large", on="worker-2", cpu="3", priority=10),
    ],
}
"""worker-1: 3 cores free of 4. worker-2: 1 free. worker-3: cordoned."""

INCOMING = pod("incoming", cpu="2", priority=100)
URGENT = pod("urgent", cpu="4", priority=100)


def filter_body(nodes=NODES, incoming=INCOMING):
    return json.dumps({"Pod": incoming, "Nodes": None, "NodeNames": list(nodes)}).encode()


def full_body(nodes=NODES, incoming=INCOMING):
    items = [{"metadata": {"name": name}} for name in nodes]
    return json.dumps({"Pod": incoming, "Nodes": {"metadata": {}, "items": items}, "NodeNames": None}).encode()


def preempt_body(incoming=URGENT, **victims):
    sent = victims or {"worker-1": ["uid-small"], "worker-2": ["uid-large"]}
    meta = {name: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 0} for name, uids in sent.items()}
    return json.dumps({"Pod": incoming, "NodeNameToVictims": None, "NodeNameToMetaVictims": meta}).encode()


BODIES = {"/filter": filter_body(), "/prioritize": filter_body(), "/preempt": preempt_body()}
"""Path -> a body that it answers with 200."""


def configuration(**sections):
    return Configuration.model_validate(sections)


def filled_cache(cluster=CLUSTER):
    cache = ClusterCache()
    cache.replace(stored_cluster(cluster))
    return cache


def client_for(app):
    """A client of the scheduler port; health and metrics come from the admin listener beside it."""
    transport = _BothListeners(app)
    headers = {"Content-Type": "application/json"}
    return httpx.AsyncClient(transport=transport, base_url="http://extender", headers=headers)


class _BothListeners(httpx.AsyncBaseTransport):
    def __init__(self, app):
        self._scheduler = httpx.ASGITransport(app, raise_app_exceptions=False)
        self._app = app

    @functools.cached_property
    def _admin(self):
        """Made when it is asked: most tests never do, and its routes take longer than a call."""
        return httpx.ASGITransport(create_admin_app(self._app.server_context, Configuration()))

    async def handle_async_request(self, request):
        to = self._admin if request.url.path in PUBLIC_PATHS else self._scheduler
        return await to.handle_async_request(request)


def scheduler_client(app):
    """A client of the scheduler port alone."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://extender")


def admin_client(server_context, client=("127.0.0.1", 50000), **sections):
    """A client of the admin listener from the address and port `client`; `sections` of the configuration."""
    transport = httpx.ASGITransport(create_admin_app(server_context, configuration(**sections)), client=client)
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8889")


@contextmanager
def listening(server_context: ServerContext) -> Iterator[str]:
    """The address of an admin listener on a socket."""
    settings = uvicorn.Config(
        create_admin_app(server_context, Configuration()), port=0, log_config=None, lifespan="off"
    )
    server = uvicorn.Server(settings)
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
async def client(anyio_backend):
    async with client_for(create_app(filled_cache(), configuration())) as client:
        yield client


def stop_binding(app):
    """Stop the threads of an application with /bind whose lifespan does not."""
    assert app.server_context.binder is not None
    app.server_context.binder.threads.shutdown()


def error_of(response):
    """The message of an error answer, whose shape is checked."""
    assert response.headers["content-type"] == "application/json"
    assert len(response.content) <= 1024
    assert list(response.json()) == ["Error"]
    message = response.json()["Error"]
    assert message
    assert message.isprintable()
    return message
