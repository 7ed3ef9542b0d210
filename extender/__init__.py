"""Public Python API of a scheduler extender that filters and scores like kube-scheduler.

    import extender
    cluster = extender.load_cluster("cluster.yaml")
    extender.evaluate(cluster, pod, version="1.33", scheduler_config="scheduler-config.yaml").to_dict()
    extender.simulate(cluster, [pod]).summary
    extender.why(cluster, "shop/cart-9").why
    extender.why(cluster).causes

    for result in extender.replay("recording"):
        assert not result.differences

Files, clusters and pods are what `kubectl get -o json` or `-o yaml` prints.
"""

from typing import TYPE_CHECKING, Any

from extender.version import __version__

if TYPE_CHECKING:
    from extender.api import (
        ClusterObjects,
        Diagnosis,
        Evaluation,
        EvictionHistory,
        KubeScheduler,
        PendingReport,
        Pod,
        Simulation,
        Snapshot,
        evaluate,
        load_cluster,
        load_scheduler,
        replay,
        simulate,
        why,
    )

__all__ = [
    "ClusterObjects",
    "Diagnosis",
    "Evaluation",
    "EvictionHistory",
    "KubeScheduler",
    "PendingReport",
    "Pod",
    "Simulation",
    "Snapshot",
    "__version__",
    "evaluate",
    "load_cluster",
    "load_scheduler",
    "replay",
    "simulate",
    "why",
]


def __getattr__(name: str) -> Any:
    """Import the API on first use: commands that only query a running service start without it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from extender import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
