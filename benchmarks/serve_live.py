"""Run the service that `benchmarks.live` calls: it follows the API server at a URL and serves a listening socket."""

import argparse
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from extender.cluster.apiserver.client import ApiServer
from extender.cluster.apiserver.credentials import Credentials
from extender.cluster.cache.cache import ClusterCache
from extender.cluster.watch.source import KubernetesSource
from extender.config import Configuration
from extender.server.app import create_app
from extender.server.run import serve

SECOND = "bin-packing"
PROFILES: Sequence[Mapping[str, Any]] = (
    {"schedulerName": "default-scheduler"},
    {
        "schedulerName": SECOND,
        "plugins": {
            "score": {"disabled": [{"name": "NodeResourcesBalancedAllocation"}, {"name": "PodTopologySpread"}]}
        },
        "pluginConfig": [
            {
                "name": "NodeResourcesFit",
                "args": {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}},
            }
        ],
    },
)
"""Two profiles as in KubeSchedulerConfiguration, of which the second one packs bins."""


def main() -> None:
    """Serve until SIGTERM."""
    # The client imports it where it finds it, with grammars that take a second and 20 MB; only the tests install it.
    sys.modules["kubernetes_validate"] = None  # type: ignore[assignment]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serve_live", description=__doc__)
    parser.add_argument("--fd", type=int, required=True, help="file descriptor of a listening socket")
    parser.add_argument("--admin-port", type=int, required=True)
    parser.add_argument("--url", required=True, help="URL of the API server")
    parser.add_argument("--ca", help="file with the CA certificate of the API server")
    parser.add_argument("--profiles", type=int, default=0, help="number of profiles of kube-scheduler; 0: its default")
    given = parser.parse_args()
    sections: dict[str, Any] = {"server": {"drainTime": "0s"}, "admin": {"port": given.admin_port}}
    if given.profiles:
        sections["scheduler"] = {"profiles": PROFILES[: given.profiles]}
    cache, config = ClusterCache(), Configuration.model_validate(sections)
    source = KubernetesSource(cache, api_at(given.url, given.ca))
    serve(create_app(cache, config, source), config, socket.socket(fileno=given.fd))


def api_at(url: str, ca_file: str | None = None) -> ApiServer:
    """Return a client without credentials."""
    from kubernetes.client import Configuration as ClientConfiguration  # imported late: see `main`

    configuration = ClientConfiguration(host=url)
    configuration.ssl_ca_cert = ca_file
    return ApiServer(lambda: Credentials(configuration, "the benchmark", None))


if __name__ == "__main__":
    main()
