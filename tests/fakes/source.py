"""Sources of a cluster cache that a test fills itself."""

from extender.server.observability.cache_status import NoSource


class Live(NoSource):
    """A live cluster: approved evictions and binds are assumed until a watch event confirms them."""

    is_live = True

    def __init__(self, stale: str | None = None) -> None:
        self.stale = stale
        """Why the cache is not ready for decisions, if it is not."""

    def problem(self) -> str | None:
        return self.stale
