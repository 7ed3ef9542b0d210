"""Where the process stands between its start and its end.

Rule: who ends it says so here first; everybody else only looks.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class Lifecycle:
    draining: bool = False
    """The end has been asked for: calls are still answered, but no new ones should be sent here."""
