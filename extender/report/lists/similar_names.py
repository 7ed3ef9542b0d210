"""Suggest pods for a name that the cluster does not have: similar ones, or those of the workload with the name.

Rule: only names that the cluster has are suggested.
"""

from collections.abc import Iterable, Iterator

from extender.k8s.objects import Pod
from extender.report.wording import IN_OTHER_NAMESPACES, PODS_OF_WORKLOAD
from extender.utilities.text import did_you_mean, join_names, similar_names

MAX_SUGGESTED = 5
"""Maximum number of names that a sentence suggests."""

_CRON_JOB_DIGITS = 8
"""Least number of digits at the end of the name of a CronJob's Job: its time in minutes."""


def suggest_pods(pods: Iterable[Pod], namespace: str, name: str) -> tuple[str, list[str]]:
    """Return the end of a sentence and the keys of the pods that may be meant by `namespace`/`name`."""
    pods = sorted(pods, key=lambda pod: (bool(pod.spec.node_name), pod.key))
    name, names_in = name.lower(), dict[str, list[str]]()
    for pod in pods:
        names_in.setdefault(pod.metadata.namespace, []).append(pod.metadata.name)
    elsewhere = [pod.key for pod in pods if pod.metadata.name == name]
    if elsewhere and name not in names_in.get(namespace, ()):  # there, only the case differs
        return IN_OTHER_NAMESPACES.format(names=join_names(elsewhere, MAX_SUGGESTED)), elsewhere
    of_workload: dict[tuple[str, str], list[str]] = {}
    for pod in pods:
        for kind, owner in _workloads(pod):
            if owner == name:
                of_workload.setdefault((pod.metadata.namespace, kind), []).append(pod.key)
    if of_workload:
        (owner_namespace, kind), keys = min(of_workload.items(), key=lambda item: (item[0][0] != namespace, item[0]))
        names = join_names(keys, MAX_SUGGESTED)
        return PODS_OF_WORKLOAD.format(workload=f"{kind} {owner_namespace}/{name}", names=names), keys
    # The namespace may be misspelt, too; it is compared on its own, or pods would be similar for its sake alone.
    for own in namespace, *similar_names(namespace.lower(), names_in.keys() - {namespace}, MAX_SUGGESTED):
        there = names_in.get(own, [])
        longer = [one for one in there if one.startswith(name)]
        if near := [f"{own}/{one}" for one in longer or similar_names(name, there, MAX_SUGGESTED)]:
            return did_you_mean(near[:MAX_SUGGESTED]), near
    return "", []


def _workloads(pod: Pod) -> Iterator[tuple[str, str]]:
    """Yield kind and name of the pod's controller, and of the Deployment or CronJob that its name points to."""
    owner = pod.metadata.controller
    if owner is not None:
        yield owner.kind, owner.name
        above, _, suffix = owner.name.rpartition("-")
        if owner.kind == "ReplicaSet":
            yield "Deployment", above
        elif owner.kind == "Job" and suffix.isdigit() and len(suffix) >= _CRON_JOB_DIGITS:
            yield "CronJob", above
