"""Find the version of kube-scheduler in a live cluster, and notice upgrades.

The version is taken from kube-scheduler's pods, which are watched anyway. If there are none (k3s, a managed control
plane), the API server's version is used; it is read at the start and once a minute.

Rule: a version that cannot be found is None, and never keeps the cache from syncing.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence

from extender.cluster.apiserver.client import ApiServer
from extender.cluster.apiserver.stream import ApiError, ApiUnreachable
from extender.k8s.objects import Pod
from extender.k8s.version.found import (
    FoundVersion,
    OnVersionFound,
    chosen_version,
    is_kube_scheduler,
    version_of_api_server,
    version_of_pods,
)
from extender.utilities.daemon_thread import run_in_daemon_thread

log = logging.getLogger(__name__)

READ_INTERVAL_SECONDS = 60.0  # Seconds between two reads of the API server's version
MAX_FIRST_READS = 5  # Attempts after which the cache syncs without the API server's version
RETRY_SECONDS = 1.0  # Seconds between the first reads
READ_TIMEOUT_SECONDS = (5.0, 5.0)  # Seconds to connect, and between two reads of the response
PODS_PER_STEP = 500  # Pods examined before other tasks run


class VersionFinder:
    """The kube-scheduler version found so far; `on_found` is called on the event loop's thread when it changes."""

    def __init__(self, api: ApiServer) -> None:
        self.found: FoundVersion | None = None  # Version of kube-scheduler's pods, else the API server's
        self.on_found: OnVersionFound = lambda _: None
        self._api = api
        self._of_pods: FoundVersion | None = None
        self._of_api_server: FoundVersion | None = None
        self._last_read: FoundVersion | None = None  # The API server's version at the last read

    def look_at(self, pods: Sequence[Pod]) -> Iterator[None]:
        """Search all pods of the cluster for kube-scheduler, in steps."""
        found = []
        for number, pod in enumerate(pods):
            if is_kube_scheduler(pod):
                found.append(pod)
            if number % PODS_PER_STEP == 0:
                yield
        self._of_pods = version_of_pods(found)
        self._update()

    async def read_first(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Read the API server's version, which the first decisions may depend on; give up after MAX_FIRST_READS."""
        for _ in range(MAX_FIRST_READS):
            if await self._read():
                self._of_api_server = self._last_read
                return
            await sleep(RETRY_SECONDS)

    async def follow(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Read the API server's version every READ_INTERVAL_SECONDS until cancelled."""
        while True:
            await sleep(READ_INTERVAL_SECONDS)
            # While a control plane of several nodes is upgraded, each read may reach another API server: a change
            # counts once two reads in a row agree.
            before = self._last_read
            if await self._read() and self._last_read == before:
                self._of_api_server = before
                self._update()

    async def _read(self) -> bool:
        """Read the API server's version; return False if a retry may succeed."""
        try:
            body = await run_in_daemon_thread(lambda: self._api.get("/version", timeout=READ_TIMEOUT_SECONDS))
            self._last_read = version_of_api_server(body)
        except ApiUnreachable:
            return False
        except ApiError as error:
            return error.code < 500 and error.code != 429
        except ValueError as error:
            log.debug("GET /version: %s", error)
        except Exception:  # a bug must not end the sync
            log.exception("reading the API server's version failed")
        return True

    def _update(self) -> None:
        before, self.found = self.found, chosen_version(self._of_pods, self._of_api_server)
        if self.found != before:
            self.on_found(self.found)
