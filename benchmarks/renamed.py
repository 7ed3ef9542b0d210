"""Names that earlier revisions have elsewhere: `benchmarks.compare` measures those with the present benchmarks."""

try:
    from extender.core.framework.scheduling_signature import cached_verdicts
except ImportError:
    from extender.core.framework.scheduling_signature import (  # type: ignore[attr-defined,no-redef]
        kept_verdicts as cached_verdicts,
    )
try:
    from extender.k8s.candidates import SentCandidate
except ImportError:
    from extender.core.preemption.sent_candidates import SentCandidate  # type: ignore[attr-defined]

__all__ = ["SentCandidate", "cached_verdicts"]
