"""Run the service that `benchmarks.service` calls: the generated cluster behind the real application, on a socket."""

import argparse
import socket

from benchmarks import generate
from benchmarks.generate import PODS_PER_NODE, Plan
from extender.cluster.cache.cache import ClusterCache
from extender.config import Configuration
from extender.server.app import create_app
from extender.server.run import serve


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serve", description=__doc__)
    parser.add_argument("--fd", type=int, required=True, help="file descriptor of a listening socket")
    parser.add_argument("--admin-port", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument(
        "--pods", type=int, nargs=2, default=PODS_PER_NODE, help="minimum and maximum number of pods on a node"
    )
    given = parser.parse_args()
    sections = {"server": {"drainTime": "0s"}, "admin": {"port": given.admin_port}}
    cache, config = ClusterCache(), Configuration.model_validate(sections)
    cache.replace(generate.as_objects(Plan(given.seed, given.nodes, tuple(given.pods))))
    serve(create_app(cache, config), config, socket.socket(fileno=given.fd))


if __name__ == "__main__":
    main()
