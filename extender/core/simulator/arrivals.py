"""Which pods a simulation has to place, and in which order they come up.

Pods that a user hands in are as a manifest has them; what the API server would fill in and the scheduler reads is
filled in here: the priority of the class, and requests where there are only limits.

Rule: who is wrong is named, and nothing is simulated.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from extender.core.snapshot.pod_table import identity, is_finished
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import RequestError
from extender.k8s.kinds import key_of
from extender.k8s.objects import Container, Pod, PriorityClass, ResourceRequirements
from extender.k8s.time import parse_time

SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""Those that every cluster has."""


def pending(snapshot: Snapshot) -> list[Pod]:
    """The pods that wait for a node, in the order of kube-scheduler's queue (PrioritySort)."""
    waiting = (
        pod
        for pod in snapshot.objects.pods.values()
        if not pod.spec.node_name and not is_finished(pod) and pod.metadata.deletion_timestamp is None
    )
    return sorted(waiting, key=lambda pod: (-pod.priority, _created(pod), pod.metadata.namespace, pod.metadata.name))


def _created(pod: Pod) -> int:
    created = pod.metadata.creation_timestamp
    return parse_time(created) if created else 0


def arrive(snapshot: Snapshot, pods: Sequence[Pod]) -> list[Pod]:
    """Put the pods that a user hands in beside those that are there -> the pods as they are admitted.

    One that waits already under the same name is replaced; RequestError for one that cannot be.
    """
    names: set[str] = set()
    admitted = []
    for pod in map(_named, pods):
        if pod.key in names:
            raise RequestError(f"pod {pod.key!r} is there twice")
        names.add(pod.key)
        admitted.append(_enter(snapshot, admit(snapshot, pod)))
    snapshot.settle()
    return admitted


def _enter(snapshot: Snapshot, pod: Pod) -> Pod:
    before = snapshot.objects.pods.get(key_of("Pod", pod))
    if before is not None and before.spec.node_name:
        if identity(before) != identity(pod) and not pod.spec.node_name:
            raise RequestError(
                f"pod {pod.key!r} is there already, on node {before.spec.node_name!r}: give it another name"
            )
        return before
    if not pod.spec.node_name:
        try:
            snapshot.put("Pod", pod)
        except ValueError as error:
            raise RequestError(f"pod {pod.key!r}: {error}") from error
    return pod


# --- what the API server fills in -----------------------------------------------------------------------------------


def _named(pod: Pod) -> Pod:
    """With a namespace, and a UID that can name it."""
    namespace = pod.metadata.namespace or "default"
    uid = pod.metadata.uid or f"{namespace}/{pod.metadata.name}"
    return replace(pod, metadata=replace(pod.metadata, namespace=namespace, uid=uid))


def admit(snapshot: Snapshot, pod: Pod) -> Pod:
    """The pod as the API server would store it, as far as the scheduler reads it; RequestError if it would not."""
    spec = pod.spec
    if spec.priority is None and spec.priority_class_name:
        of_class = _class(snapshot, pod)
        policy = spec.preemption_policy or of_class.preemption_policy
        spec = replace(spec, priority=of_class.value, preemption_policy=policy)
    spec = replace(
        spec,
        containers=_with_requests(spec.containers),
        init_containers=_with_requests(spec.init_containers),
    )
    return replace(pod, spec=spec)


def _class(snapshot: Snapshot, pod: Pod) -> PriorityClass:
    name = pod.spec.priority_class_name
    found = snapshot.objects.priority_classes.get(("", name))
    if found is not None:
        return found
    if name in SYSTEM_CLASSES:
        return PriorityClass(replace(pod.metadata, name=name), SYSTEM_CLASSES[name])
    if "priority_classes" in snapshot.unread:
        raise RequestError(f"pod {pod.key!r}: set spec.priority: PriorityClasses may not be read")
    raise RequestError(f"pod {pod.key!r}: no PriorityClass with name {name!r} was found")


def _with_requests(containers: Iterable[Container] | None) -> list[Container] | None:
    return None if containers is None else [_with_request(one) for one in containers]


def _with_request(container: Container) -> Container:
    """What has a limit and no request requests the limit (SetDefaults_Pod, v1.36)."""
    given = container.resources
    if given is None or not given.limits:
        return container
    requests: Mapping[str, object] = {**given.limits, **(given.requests or {})}
    resources: ResourceRequirements = replace(given, requests=requests)
    return replace(container, resources=resources)


def by_priority(pods: Sequence[Pod]) -> Iterator[Pod]:
    """The order in which they are tried first; of equal priority, in the order in which they came."""
    return iter(sorted(pods, key=lambda pod: -pod.priority))
