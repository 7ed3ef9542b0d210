"""NodeDeclaredFeatures: a pod that needs a kubelet feature fits only on nodes that declare it.

Mirrors pkg/scheduler/framework/plugins/nodedeclaredfeatures and component-helpers/nodedeclaredfeatures (v1.35 to 1.37).
Only the features listed here can be inferred for a pod that is being scheduled (InferForPodScheduling).
"""

from extender.core.framework.filter_checks import StaticCheck
from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.snapshot.arrays import Encoded, encode
from extender.core.snapshot.derived import derived
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.objects import Pod
from extender.k8s.version.features import Features

NAME = "NodeDeclaredFeatures"
REASON = "node(s) didn't match Pod's required features"


def required_features(pod: Pod, features: Features) -> frozenset[str]:
    """Return the kubelet features that the pod's spec requires (InferForPodScheduling)."""
    spec = pod.spec
    required = set()
    containers = [*(spec.containers or ()), *(spec.init_containers or ())]
    if any(rule.action == "RestartAllContainers" for c in containers for rule in c.restart_policy_rules or ()):
        required.add("RestartAllContainersOnContainerExits")
    if features.user_namespaces_of_host_network_are_declared and spec.host_network and spec.host_users is False:
        required.add("UserNamespacesHostNetworkSupport")
    if features.bind_mount_options_are_required_features and any(
        mount.bind_mount_options
        for container in (*containers, *(spec.ephemeral_containers or ()))
        for mount in container.volume_mounts or ()
    ):
        required.add("VolumeBindMountOptions")
    return frozenset(required)


def filter(context: SchedulingContext) -> tuple[StaticCheck, ...]:
    """Return one check, or none for a pod that requires no feature."""
    required = required_features(context.pod, context.features)
    if not required:
        return ()
    rejected = declared_features(context.snapshot).map_bool(lambda declared: not required <= declared)
    reason = REASON
    if context.features.declared_features_are_named:  # v1.35 infers only one feature, so a node lacks all required ones
        reason = f"node declared features check failed - unsatisfied requirements: {', '.join(sorted(required))}"
    return (StaticCheck(NAME, rejected, (reason,)),)


@derived("nodes")
def declared_features(snapshot: Snapshot) -> Encoded:
    """Return [node]: set of status.declaredFeatures."""
    return encode([frozenset(node.status.declared_features or ()) for node in snapshot.nodes])
