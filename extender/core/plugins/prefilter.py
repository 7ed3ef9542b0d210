"""What a plugin says before any node is looked at (framework PreFilterResult, v1.36)."""

from dataclasses import dataclass

from extender.core.verdict import Verdict


@dataclass(frozen=True, slots=True)
class PreFilter:
    """`nodes`: the only ones worth asking (None: all); `rejection`: the pod fits nowhere."""

    nodes: frozenset[str] | None = None
    rejection: Verdict | None = None
