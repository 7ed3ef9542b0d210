"""Run the service whose page `benchmarks.page` loads: the generated cluster or the example, with strict policies."""

import argparse
import socket

from benchmarks import generate
from benchmarks.generate import Plan
from extender.cluster.cache.cache import ClusterCache
from extender.cluster.files.manifests import example_cluster
from extender.config import Configuration
from extender.server.app import create_app
from extender.server.run import serve


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serve_page", description=__doc__)
    parser.add_argument("--fd", type=int, required=True, help="file descriptor of a listening socket")
    parser.add_argument("--admin-port", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--nodes", type=int, required=True, help="0: the example cluster")
    given = parser.parse_args()
    sections = {"server": {"drainTime": "0s"}, "admin": {"port": given.admin_port}, "preemption": {"preset": "strict"}}
    cache, config = ClusterCache(), Configuration.model_validate(sections)
    cache.replace(generate.as_objects(Plan(given.seed, given.nodes)) if given.nodes else example_cluster())
    serve(create_app(cache, config), config, socket.socket(fileno=given.fd))


if __name__ == "__main__":
    main()
