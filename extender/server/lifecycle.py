"""Where the process stands between its start and its end, and what its listeners show.

Rule: who ends it says so here first; everybody else only looks.
"""

from dataclasses import dataclass, field

from extender.server.http.tls import TLSFiles


@dataclass(slots=True)
class Lifecycle:
    draining: bool = False
    """The end has been asked for: calls are still answered, but no new ones should be sent here."""
    certificates: dict[str, TLSFiles] = field(default_factory=dict)
    """Of the listeners that speak TLS: `server`, `admin`."""

    def warnings(self) -> list[str]:
        """What an operator should know of the certificates, a line each."""
        return [line for files in self.certificates.values() for line in files.warnings()]
