"""The service as `extender serve` starts it without a cluster: the example, and the decisions of its first calls."""

import contextlib
from collections.abc import Iterator

from extender.cli.commands.serve import send_example_requests
from extender.cluster.cache.cache import ClusterCache
from extender.cluster.files.manifests import example_cluster
from extender.config import Configuration
from extender.server.app import create_app
from tests.server.conftest import listening


@contextlib.contextmanager
def example_service() -> Iterator[str]:
    """Serve the example cluster; yield the address of the admin listener."""
    cache = ClusterCache()
    cache.replace(example_cluster())
    server_context = create_app(cache, Configuration()).server_context
    send_example_requests(server_context)
    with listening(server_context) as url:
        yield url
