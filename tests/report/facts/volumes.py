"""What is said of a pod and its nodes, with the volumes and devices of a small cluster."""

from collections.abc import Iterable
from typing import Any

from extender.config.scheduler.load import kube_scheduler_of
from extender.report.diagnose import diagnose
from extender.report.pod_schema import Diagnosis
from tests.builders import JSON, NodeObject, built, cluster, typed


def diagnosed(
    nodes: dict[NodeObject, list[JSON]],
    waiting: JSON,
    *others: JSON,
    nominees: Iterable[JSON] = (),
    version: str = "1.37",
    disabled: str = "",
) -> Diagnosis:
    """The diagnosis of a pod that waits, by kube-scheduler of this version with one plugin `disabled`."""
    plugins = {"multiPoint": {"disabled": [{"name": disabled}]}} if disabled else {}
    profile = {"schedulerName": "default-scheduler", "plugins": plugins}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    scheduler = kube_scheduler_of(kind | {"profiles": [profile]}, version=version)
    here = built(cluster(nodes, waiting=[waiting, *nominees], others=others), scheduler.features)
    return diagnose(here, typed(waiting), scheduler)


def facts_of(found: Diagnosis) -> dict[str, list[Any]]:
    """The facts of each node."""
    return {one.name: list(one.facts) for one in found.nodes}
