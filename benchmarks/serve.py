"""The service that `benchmarks.service` calls: the generated cluster behind the real application, on a given socket."""

import argparse
import gc
import socket

import uvicorn

from benchmarks import generate
from benchmarks.generate import Plan
from extender.cluster.store import ClusterStore
from extender.config import Configuration
from extender.server.app import create_app
from extender.server.run import server_settings


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serve", description=__doc__)
    parser.add_argument("--fd", type=int, required=True, help="file descriptor of a listening socket")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--nodes", type=int, required=True)
    given = parser.parse_args()
    serve(Plan(given.seed, given.nodes), socket.socket(fileno=given.fd))


MAX_BODY = 64 << 20
"""Above the default, which is meant for what the scheduler samples, not for every node of a large cluster."""


def serve(plan: Plan, listening: socket.socket) -> None:
    """As `extender.server.run.serve`, but for where the cluster comes from and who opened the socket."""
    store, config = ClusterStore(), Configuration.model_validate({"server": {"maxBodyNames": MAX_BODY}})
    store.replace(generate.as_objects(plan))
    settings = server_settings(create_app(store, config), config)
    gc.collect()
    gc.freeze()
    uvicorn.Server(settings).run(sockets=[listening])


if __name__ == "__main__":
    main()
