"""What a plugin says before any node is looked at (framework PreFilterResult, v1.36)."""

from dataclasses import dataclass
from typing import Self

from extender.core.framework.status import Code, Status


@dataclass(frozen=True, slots=True)
class PreFilter:
    """`nodes`: the only ones worth asking (None: all); `rejection`: the pod fits nowhere."""

    nodes: frozenset[str] | None = None
    rejection: Status | None = None

    @classmethod
    def rejecting(cls, plugin: str, reason: str) -> Self:
        """No node will do, whoever is evicted."""
        return cls(rejection=Status(Code.UNRESOLVABLE, plugin, (reason,)))
