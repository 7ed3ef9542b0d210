"""Read the cluster of a running service: GET /cluster of its admin listener.

Rule: the response is passed on as it arrives; every failure raises an ExtenderError that suggests what to check.
"""

from collections.abc import Iterator

import httpx

from extender.cli.http_client import NOT_ADMIN_LISTENER, TLSClientConfig, error_in
from extender.errors import ClusterFileError


def read_service_cluster(url: str, timeout: float, tls: TLSClientConfig) -> Iterator[bytes]:
    """Yield the cluster file of the service in chunks; `timeout`: seconds to wait for each chunk."""
    url = url.rstrip("/")
    has_begun = False
    with tls.client(url, timeout) as client:
        try:
            with client.stream("GET", f"{url}/cluster") as response:
                if response.status_code != 200:
                    message = error_in(response.read()) or NOT_ADMIN_LISTENER
                    raise ClusterFileError(f"{url} does not dump its cluster ({response.status_code}): {message}")
                has_begun = True
                yield from response.iter_bytes()
        except httpx.HTTPError as error:
            # The status was 200 already: the service can report an error only by closing the connection.
            if has_begun and not isinstance(error, httpx.TimeoutException):
                raise ClusterFileError(f"{url}: the response ended too early; its log says why") from error
            raise ClusterFileError(tls.connection_error(error, url, timeout)) from error
