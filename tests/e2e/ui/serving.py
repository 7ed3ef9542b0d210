"""The real service on loopback: both listeners on one event loop in a thread, as `run.serve` runs them in a process.

Rule: tests reach the service only over HTTP.
"""

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import uvicorn

from extender.cluster.cache.cache import ClusterCache
from extender.config import Configuration
from extender.k8s.kinds import ClusterObjects
from extender.report.schema import SourceReport
from extender.server.admin.app import create_admin_app
from extender.server.app import create_app

TIMEOUT_SECONDS = 60
JSON = dict[str, Any]


@dataclass(frozen=True)
class Served:
    """One running service and its HTTP clients."""

    scheduler: httpx.Client
    admin: httpx.Client
    url: str
    """Address of the page."""

    def ask(self, verb: str, body: Mapping[str, Any]) -> Any:
        """Send what kube-scheduler would send."""
        answer = self.scheduler.post(f"/{verb}", content=json.dumps(body), headers={"Content-Type": "application/json"})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def get(self, path: str, **parameters: str) -> Any:
        """Send what the page would send."""
        answer = self.admin.get(path, params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def simulate(self, body: Mapping[str, Any]) -> Any:
        answer = self.admin.post("/simulate", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()


@contextlib.contextmanager
def serving(objects: ClusterObjects, **sections: Any) -> Iterator[Served]:
    """Run the service for a cluster, with sections of the configuration."""
    cache = ClusterCache()
    cache.replace(objects)
    config = Configuration.model_validate(sections)
    app = create_app(cache, config, where=lambda: SourceReport(kind="example"))
    beside = create_admin_app(app.server_context, config)
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        servers = [uvicorn.Server(_quiet(one)) for one in (app, beside)]
        thread = threading.Thread(target=asyncio.run, args=(_serve(servers, sockets),), name="service")
        thread.start()
        stack.callback(thread.join, TIMEOUT_SECONDS)
        stack.callback(_stop, servers)
        own, other = (f"http://127.0.0.1:{one.getsockname()[1]}" for one in sockets)
        clients = [stack.enter_context(httpx.Client(base_url=url, timeout=TIMEOUT_SECONDS)) for url in (own, other)]
        yield Served(clients[0], clients[1], f"{other}/ui")


def _quiet(app: Any) -> uvicorn.Config:
    return uvicorn.Config(app, log_config=None, access_log=False, ws="none", timeout_graceful_shutdown=2)


async def _serve(servers: list[uvicorn.Server], sockets: list[socket.socket]) -> None:
    pairs = zip(servers, sockets, strict=True)
    await asyncio.gather(*(server.serve([listening]) for server, listening in pairs))


def _stop(servers: list[uvicorn.Server]) -> None:
    for server in servers:
        server.should_exit = True
