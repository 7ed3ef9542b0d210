"""Process lifecycle: whether the server is draining, and the TLS certificates that its listeners present.

Rule: `server.run` is the only writer; health checks and metrics only read.
"""

from dataclasses import dataclass, field

from extender.server.http.tls import TLSFiles


@dataclass(slots=True)
class Lifecycle:
    """State shared by `server.run`, /readyz and the metrics."""

    is_draining: bool = False
    """True once a shutdown has begun: calls are still answered, but /readyz fails so that endpoints are removed."""
    certificates: dict[str, TLSFiles] = field(default_factory=dict)
    """Listener (`server`, `admin`) -> its TLS files, for the listeners that serve TLS."""

    def warnings(self) -> list[str]:
        """Return one line per certificate that expires soon or could not be reloaded."""
        return [line for files in self.certificates.values() for line in files.warnings()]
