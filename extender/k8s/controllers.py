"""PodGroups, and the Services and controllers of a pod's default selector.

As in `objects`: one Struct per API type, with only the fields that are read.

Rule: immutable values; nothing here decides anything.
"""

from typing import Any

from extender.k8s.objects import Int32, Labels, LabelSelector, Object, Value

# --- pod groups -----------------------------------------------------------------------------------------------------


class GangPolicy(Value, frozen=True):
    min_count: Int32 = 0


class GroupSchedulingPolicy(Value, frozen=True):
    gang: GangPolicy | None = None


class PodGroupSpec(Value, frozen=True):
    scheduling_policy: GroupSchedulingPolicy | None = None
    """Field of scheduling.k8s.io."""
    disruption_mode: Any = None
    """Field of scheduling.k8s.io: `{"all": {}}` or `{"single": {}}`, in v1alpha2 a text."""
    parent_composite_pod_group_name: str | None = None
    """Field of scheduling.k8s.io from v1alpha3 on."""
    min_member: Int32 = 0
    """Field of scheduling.x-k8s.io/v1alpha1."""


class PodGroup(Object, frozen=True):
    """A PodGroup of either API group; an object has the spec field of its own group only."""

    spec: PodGroupSpec = PodGroupSpec()

    @property
    def minimum(self) -> int | None:
        """Return the number of its pods that must run together (gang scheduling); None without such a minimum."""
        policy = self.spec.scheduling_policy
        gang = policy.gang if policy is not None else None
        return (gang.min_count if gang is not None else self.spec.min_member) or None

    @property
    def may_go_together_only(self) -> bool:
        """Return whether its pods, or those of a group above it, may only be evicted together (v1.37)."""
        mode = self.spec.disruption_mode
        has_mode_all = isinstance(mode, dict) and mode.get("all") is not None
        return has_mode_all or self.spec.parent_composite_pod_group_name is not None


# --- services and controllers, for the default selector of a pod --------------------------------------------------


class ServiceSpec(Value, frozen=True):
    """Spec of a Service or a ReplicationController, whose selector is a plain set of labels."""

    selector: Labels | None = None


class Service(Object, frozen=True):
    spec: ServiceSpec = ServiceSpec()


class ReplicationController(Object, frozen=True):
    spec: ServiceSpec = ServiceSpec()


class WorkloadSpec(Value, frozen=True):
    selector: LabelSelector | None = None


class ReplicaSet(Object, frozen=True):
    spec: WorkloadSpec = WorkloadSpec()


class StatefulSet(Object, frozen=True):
    spec: WorkloadSpec = WorkloadSpec()
