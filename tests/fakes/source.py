"""Sources of a cluster cache that a test fills itself."""

from extender.server.observability.cache_status import NoSource

STALE = "pods are stale: not watched for 31s"


class Stale(NoSource):
    """A source whose cache is not ready for decisions as long as `stale` says why."""

    def __init__(self, stale: str | None = STALE) -> None:
        self.stale = stale

    def problem(self) -> str | None:
        return self.stale


class Live(Stale):
    """A live cluster: approved evictions and binds are assumed until a watch event confirms them."""

    is_live = True

    def __init__(self, stale: str | None = None) -> None:
        super().__init__(stale)
