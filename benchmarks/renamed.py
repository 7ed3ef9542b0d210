"""Names that earlier revisions have elsewhere: `benchmarks.compare` measures those with the present benchmarks."""

try:
    from extender.core.framework.filter_checks import Constraint
except ImportError:
    from extender.core.framework.constraint import Constraint  # type: ignore[import-not-found,no-redef]
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
try:
    from extender.k8s.workloads import ReplicaSet
except ImportError:
    from extender.k8s.controllers import ReplicaSet  # type: ignore[import-not-found,no-redef]
try:
    from extender.cluster.watch.interning import DeviceInterning
except ImportError:
    from extender.cluster.watch.device_interning import DeviceInterning  # type: ignore[import-not-found,no-redef]

__all__ = ["Constraint", "DeviceInterning", "ReplicaSet", "SentCandidate", "cached_verdicts"]
